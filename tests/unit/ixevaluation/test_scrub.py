import re

import pytest

from ixevaluation.dataset import BUNDLED, BUNDLED_DIR, load_set
from ixevaluation.scrub import KINDS, find_personal, is_synthetic, scrub_conversation, synthetic
from ixevaluation.seed import item_texts
from ixrag.sample import sample_corpus


@pytest.mark.parametrize(
    ("text", "lang", "kind", "value"),
    [
        ("écrivez à j.dupont+pro@exemple-client.fr svp", "fr", "email", "j.dupont+pro@exemple-client.fr"),
        ("mon tel 06 12 34 56 78 merci", "fr", "phone", "06 12 34 56 78"),
        ("call +44 20 8366 1177 now", "en", "phone", "+44 20 8366 1177"),
        ("llámame al 612 34 56 78", "es", "phone", "612 34 56 78"),
        ("chiamami al 347 123 4567", "it", "phone", "347 123 4567"),
        ("Tel. 030 22610 123", "de", "phone", "030 22610 123"),
        ("IBAN FR76 3000 6000 0112 3456 7890 189 et voilà", "fr", "iban", "FR76 3000 6000 0112 3456 7890 189"),
        ("DE89370400440532013000", "de", "iban", "DE89370400440532013000"),
        ("card 4111 1111 1111 1111 exp 12/28", "en", "card", "4111 1111 1111 1111"),
        ("voir https://bob:s3cret@intra.example.org/x.", "fr", "url", "https://bob:s3cret@intra.example.org/x"),
        ("link https://app.example.org/r?id=4&access_token=abc", "en", "url", "https://app.example.org/r?id=4&access_token=abc"),
        ("key sk-proj-abcdEFGH1234ijklMNOP5678", "en", "key", "sk-proj-abcdEFGH1234ijklMNOP5678"),
        ("AKIAIOSFODNN7EXAMPLE", "en", "key", "AKIAIOSFODNN7EXAMPLE"),
        ("Authorization: Bearer abcdef1234567890xyz", "en", "key", "abcdef1234567890xyz"),
        ("eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0.SflKxwRJSM", "en", "key", "eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0.SflKxwRJSM"),
        ("secret 9fQ2xL7vT0bN4mZ8rK1cW6yH3aJ5", "en", "key", "9fQ2xL7vT0bN4mZ8rK1cW6yH3aJ5"),
        ("je m'appelle paul martin et je cherche", "fr", "name", "paul martin"),
        ("Nom : Hervé Le Goff, tel demain", "fr", "name", "Hervé Le Goff"),
        ("My name is Ann O'Neil.", "en", "name", "Ann O'Neil"),
        ("Me llamo Lucía Peña y quiero", "es", "name", "Lucía Peña"),
        ("Mi chiamo Gino Rossi", "it", "name", "Gino Rossi"),
        ("Ich heiße Jörg Weiß", "de", "name", "Jörg Weiß"),
        ("pour Mme Delacroix svp", "fr", "name", "Delacroix"),
    ],
)  # fmt: skip
def test_personal_data_is_found_whole_and_replaced(text: str, lang: str, kind: str, value: str) -> None:
    assert [(f.kind, f.text) for f in find_personal(text, lang=lang)] == [(kind, value)]
    (clean,) = scrub_conversation([("user", text)], lang=lang)
    assert value not in clean
    assert find_personal(clean, lang=lang) == []


@pytest.mark.parametrize(
    "text",
    [
        "Nous avons 126 salariés sur 12 sites en 2026",
        "De 5 à 10 ans, budget 12 000 € HT par an",
        "plan https://www.example.org/tarifs?lang=fr",
        "réf. 2026-11-30, version 1.5.7, module QR-2200",
        "Le nom du module est Planivaro",
        "Bonjour Madame, avez-vous un essai ?",
        "What is your name policy for sites?",
        "international-standardisation-organisation",
    ],
)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert find_personal(text) == []
    assert scrub_conversation([("user", text)]) == [text]


def test_a_name_given_once_is_gone_from_the_whole_conversation() -> None:
    conversation = [
        ("assistant", "Puis-je avoir votre nom ?"),
        ("user", "paul martin"),
        ("assistant", "Merci Paul, je transmets à l'équipe."),
        ("user", "Paul Martin attend votre appel"),
    ]
    clean = scrub_conversation(conversation, lang="fr")
    assert not re.search("paul|martin", " ".join(clean), re.IGNORECASE)
    assert clean[1] in clean[3]
    assert clean[2].startswith(f"Merci {clean[1].split()[0]},")


def test_a_question_after_the_request_for_a_name_is_no_name() -> None:
    conversation = [("assistant", "Your name please?"), ("user", "Why do you ask?")]
    assert scrub_conversation(conversation, lang="en")[1] == "Why do you ask?"


def test_stand_ins_are_stable_within_a_salt_and_differ_between_salts() -> None:
    assert synthetic("email", "A@b.example", "x") == synthetic("email", "a@B.example", "x")
    pairs = {
        (synthetic("email", f"u{n}@b.example", "x"), synthetic("email", f"u{n}@b.example", "y"))
        for n in range(8)
    }
    assert any(one != other for one, other in pairs)


@pytest.mark.parametrize("kind", KINDS)
def test_a_stand_in_is_never_found_again(kind: str) -> None:
    for number in range(50):
        value = synthetic(kind, f"value {number}")  # type: ignore[arg-type]  # a parametrised literal
        assert is_synthetic(value)
        for text in (value, f"je m'appelle {value}", f"contact : {value}."):
            assert find_personal(text, lang="fr") == [], text


@pytest.mark.parametrize("name", [name for name in BUNDLED if (BUNDLED_DIR / f"{name}.jsonl").is_file()])
def test_no_bundled_set_holds_personal_data(name: str) -> None:
    for item in load_set(name).items:
        for text in item_texts(item):
            assert find_personal(text, lang=item.lang) == [], item.id


def test_the_sample_base_holds_no_personal_data_either() -> None:
    for passage in sample_corpus().passages:
        kinds = [f.kind for f in find_personal(passage.text, lang=passage.lang)]
        assert kinds == [], passage.id


def test_the_scan_would_see_a_canary() -> None:
    canaries = [
        "canary@corp-mail.example.org",
        "+33 6 98 76 54 32",
        "GB82 WEST 1234 5698 7654 32",
        "ghp_" + "a1B2" * 9,
    ]
    for canary in canaries:
        assert find_personal(f"harmless words {canary} more words"), canary
