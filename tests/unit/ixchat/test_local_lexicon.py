"""One example a list and language: what a native speaker's correction must not break."""

import pytest

from ixchat.utils.local.lexicon import Lean, Reply, compile_phrases, lexicon_of, lexicons
from ixchat.utils.local.rules import blank_impersonal, marker
from ixrag.words import folded, words


def test_five_languages_are_there_and_complete() -> None:
    assert set(lexicons()) == {"de", "en", "es", "fr", "it"}
    for lexicon in lexicons().values():
        assert set(lexicon.lean) == {
            "impersonal", "thing", "party", "several", "inside", "opener", "company", "shift", "clitic",
        }  # fmt: skip
        assert set(lexicon.grammar) == set(lexicons()["en"].grammar)
        assert set(lexicon.kinds) == set(lexicons()["en"].kinds)
        assert set(lexicon.reply) == {"yes", "no", "thanks", "hello"}


LEANS = [
    ("de", "inside", "Wenn ein Mitarbeiter geht, bekommt er seine Daten?"),
    ("it", "inside", "Quando un dipendente se ne va, i suoi dati restano?"),
    ("es", "inside", "Si un empleado se va, ¿qué pasa con sus datos?"),
    ("en", "inside", "When somebody leaves, is their account closed?"),
    ("fr", "inside", "Quand un salarié part, que deviennent ses données ?"),
    ("fr", "thing", "Quelles enseignes l'ont déjà installée ?"),
    ("fr", "thing", "Combien coûte-t-elle pour 80 salariés ?"),
    ("fr", "thing", "Peut-on le connecter à notre caisse ?"),
    ("fr", "thing", "Ce module est-il payant ?"),
    ("fr", "party", "Le déploiement a pris combien de temps chez eux ?"),
    ("fr", "several", "Laquelle convient à un réseau de franchisés ?"),
    ("fr", "opener", "Et pour les restaurants ?"),
    ("fr", "company", "Où sont vos bureaux ?"),
    ("fr", "shift", "Et si on parlait plutôt de vos tarifs annuels ?"),
    ("en", "thing", "Which retailers already run it?"),
    ("en", "thing", "What is the minimum contract length for this plan?"),
    ("en", "party", "How long did the rollout take for them?"),
    ("en", "several", "Which one includes the API access?"),
    ("en", "opener", "What about restaurants?"),
    ("en", "company", "Where are your offices?"),
    ("en", "shift", "By the way, do you hire?"),
    ("es", "thing", "¿Se puede instalarlo en una tableta?"),
    ("es", "thing", "¿Qué cadenas ya lo usan?"),
    ("es", "party", "¿Cuánto tardó la implantación con ellos?"),
    ("es", "several", "¿Cuál de los dos conviene más?"),
    ("es", "opener", "¿Y para los hoteles?"),
    ("es", "company", "¿Ustedes tienen oficinas en Madrid?"),
    ("es", "shift", "Por cierto, ¿contratan gente?"),
    ("it", "thing", "Possiamo installarlo su un tablet?"),
    ("it", "thing", "Questo modulo è compreso nel canone?"),
    ("it", "party", "Quanto è durato il progetto con loro?"),
    ("it", "several", "Quale dei due conviene?"),
    ("it", "opener", "E per gli alberghi?"),
    ("it", "company", "Avete uffici a Milano?"),
    ("it", "shift", "A proposito, assumete?"),
    ("de", "thing", "Kann man es auch offline nutzen? Und was kostet sie?"),
    ("de", "thing", "Welche Filialisten arbeiten schon damit?"),
    ("de", "party", "Wie lange dauerte die Einführung bei denen?"),
    ("de", "several", "Welcher davon passt zu uns?"),
    ("de", "opener", "Und für Hotels?"),
    ("de", "company", "Wo sind Ihre Büros?"),
    ("de", "shift", "Übrigens, stellen Sie ein?"),
    ("fr", "clitic", "On peut y importer un fichier ?"),
    ("en", "clitic", "Is there a cheaper one?"),
    ("es", "clitic", "¿Pueden descargársela los peones?"),
    ("it", "clitic", "Ne posso avere più di uno?"),
    ("de", "clitic", "Läuft die auch auf alten Handys?"),
]


@pytest.mark.parametrize(("code", "kind", "message"), LEANS)
def test_markers_are_found(code: str, kind: Lean, message: str) -> None:
    lexicon = lexicons()[code]
    assert marker(blank_impersonal(folded(message), lexicon), lexicon, kind)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("fr", "Y a-t-il un contrat minimum ?"),
        ("fr", "Combien de temps faut-il pour démarrer ?"),
        ("fr", "Où sont hébergées les données des salariés ?"),
        ("fr", "Quel est le délai pour le premier planning ?"),
        ("en", "How long does it take to migrate?"),
        ("en", "Is it possible to export the hours?"),
        ("en", "Where are the servers located?"),
        ("es", "¿Es posible exportar las horas?"),
        ("es", "¿Hay que firmar un contrato?"),
        ("it", "C'è un contratto minimo?"),
        ("it", "È possibile esportare le ore?"),
        ("de", "Gibt es eine Mindestlaufzeit?"),
        ("de", "Ist es möglich, Stunden zu exportieren?"),
    ],
)
def test_impersonal_phrases_point_at_nothing(code: str, message: str) -> None:
    lexicon = lexicons()[code]
    text = blank_impersonal(folded(message), lexicon)
    assert len(text) == len(folded(message))
    assert not any(marker(text, lexicon, kind) for kind in ("thing", "party", "several"))


@pytest.mark.parametrize(
    ("code", "word_class", "word"),
    [
        ("fr", "possessive", "ses"), ("fr", "definite", "aux"), ("fr", "indefinite", "une"), ("fr", "self", "notre"), ("fr", "drops", "marche"), ("fr", "firm", "siège"),
        ("en", "possessive", "its"), ("en", "definite", "the"), ("en", "indefinite", "an"), ("en", "self", "our"), ("en", "drops", "works"), ("en", "firm", "offices"),
        ("es", "possessive", "sus"), ("es", "definite", "del"), ("es", "indefinite", "unos"), ("es", "self", "nuestra"), ("es", "drops", "funciona"), ("es", "firm", "oficinas"),
        ("it", "possessive", "suoi"), ("it", "definite", "della"), ("it", "indefinite", "uno"), ("it", "self", "miei"), ("it", "drops", "costa"), ("it", "firm", "uffici"),
        ("de", "possessive", "seine"), ("de", "definite", "zum"), ("de", "indefinite", "einem"), ("de", "self", "unsere"), ("de", "drops", "läuft"), ("de", "firm", "büros"),
    ],
)  # fmt: skip
def test_word_classes_hold_their_words(code: str, word_class: str, word: str) -> None:
    assert folded(word) in lexicons()[code].grammar[word_class]


@pytest.mark.parametrize(
    ("code", "kind", "noun"),
    [
        ("fr", "device", "sonde"), ("fr", "plan", "formule"), ("en", "device", "reader"), ("en", "product", "app"),
        ("es", "device", "lector"), ("it", "plan", "pacchetto"), ("de", "product", "konto"), ("de", "sector", "branche"),
    ],
)  # fmt: skip
def test_nouns_say_what_an_entity_is(code: str, kind: str, noun: str) -> None:
    assert folded(noun) in lexicons()[code].kinds[kind]


@pytest.mark.parametrize(
    ("code", "kind", "reply"),
    [
        ("fr", "yes", "Oui, avec plaisir"), ("fr", "no", "Pas pour l'instant"), ("fr", "thanks", "Merci beaucoup"), ("fr", "hello", "Bonjour"),
        ("en", "yes", "Sounds good"), ("en", "no", "Not really"), ("en", "thanks", "Thanks a lot"), ("en", "hello", "Good morning"),
        ("es", "yes", "Claro que sí"), ("es", "no", "Todavía no"), ("es", "thanks", "Muchas gracias"), ("es", "hello", "Buenos días"),
        ("it", "yes", "Sì, volentieri"), ("it", "no", "Non ancora"), ("it", "thanks", "Grazie mille"), ("it", "hello", "Buongiorno"),
        ("de", "yes", "Ja, gerne"), ("de", "no", "Noch nicht"), ("de", "thanks", "Vielen Dank"), ("de", "hello", "Guten Tag"),
    ],
)  # fmt: skip
def test_bare_replies_are_recognised(code: str, kind: Reply, reply: str) -> None:
    assert lexicons()[code].reply[kind].search(folded(reply))


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        ("fr", "Souhaitez-vous que je vous partage un exemple de client ?"),
        ("en", "Would you like to see a customer example?"),
        ("es", "¿Quiere que le envíe un ejemplo?"),
        ("it", "Le mando un esempio di cliente?"),
        ("de", "Soll ich Ihnen ein Beispiel schicken?"),
    ],
)
def test_offers_are_recognised_and_so_is_their_language(code: str, sentence: str) -> None:
    assert lexicons()[code].offer.search(folded(sentence))
    lexicon = lexicon_of(words(sentence))
    assert lexicon is not None
    assert lexicon.code == code


def test_a_text_without_common_words_has_no_language() -> None:
    assert lexicon_of(words("Planivaro 4711")) is None
    assert lexicon_of([]) is None


@pytest.mark.parametrize(
    ("phrase", "text", "found"),
    [
        pytest.param("a|b c", "x b c", "b c", id="either word"),
        pytest.param("*er", "pour connecter", "connecter", id="ending"),
        pytest.param("compat*", "est compatible", "compatible", id="beginning"),
        pytest.param("* il", "coute il", "coute il", id="any word"),
        pytest.param("ce {things}", "ce module", "ce module", id="list"),
        pytest.param("^ et", "et puis et", "et", id="start"),
        pytest.param("ça $", "ca et ca", "ca", id="end, accents ignored"),
        pytest.param("il", "mille", None, id="whole words alone"),
    ],
)
def test_phrases_read_as_the_guide_says(phrase: str, text: str, found: str | None) -> None:
    match = compile_phrases([phrase], {"things": frozenset({"module"})}).search(text)
    assert (match.group() if match else None) == found
