from __future__ import annotations

from pathlib import Path

import pytest

from ixinfra.errors import ConfigError
from ixrag.query import QueryContext, load_glossary, load_tenant_glossaries
from ixrag.query.glossary_files import load_glossary_of

CTX = QueryContext("acme")


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


async def test_toml_holds_terms_groups_and_options(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "acme.toml",
        """
        [options]
        plurals_of = ["en"]
        [terms]
        invoice = ["bill", "statement"]
        [groups]
        rag = ["RAG", "retrieval augmented generation"]
        """,
    )

    found = await load_glossary(path).expand(CTX, "Retrieval augmented generation for invoices, or RAG")

    assert found == {
        "retrieval augmented generation": ["RAG"],
        "invoice": ["bill", "statement"],
        "rag": ["retrieval augmented generation"],
    }


async def test_csv_holds_a_pair_a_line(tmp_path: Path) -> None:
    text = '\ufeffTerm, Synonym\r\ninvoice,bill\r\n\r\ninvoice,"statement, monthly"\r\n'

    found = await load_glossary(written(tmp_path, "acme.csv", text)).expand(CTX, "my invoice")

    assert found == {"invoice": ["bill", "statement, monthly"]}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        pytest.param("a.csv", "invoice,bill\n", "line 1: expected the header 'term,synonym'", id="no header"),
        pytest.param("a.csv", "", "line 1: expected the header", id="empty csv"),
        pytest.param(
            "a.csv", "term,synonym\na,b,c\n", "line 2: expected a term and one synonym", id="columns"
        ),
        pytest.param(
            "a.csv", "term,synonym\na,\n", "line 2: expected a term and one synonym", id="no synonym"
        ),
        pytest.param(
            "a.csv",
            "term,synonym\ncongé,absence\nCongé,absence\n",
            "line 3: 'Congé' has the synonym 'absence' already, from line 2; remove one",
            id="pair twice",
        ),
        pytest.param(
            "a.csv",
            "term,synonym\ncongé,absence\nconge,leave\n",
            "line 3: 'conge' and 'congé' (line 2) are the same term",
            id="two spellings",
        ),
        pytest.param(
            "a.csv", "term,synonym\nBill,bill\n", "line 2: 'Bill' is given as its own synonym", id="itself"
        ),
        pytest.param("a.csv", "term,synonym\n?!,x\n", "line 2: '?!' holds no word to find", id="no word"),
        pytest.param(
            "a.csv",
            "term,synonym\nx,y\nbill,invoice\ninvoice,receipt\nreceipt,bill\n",
            "synonyms lead back to their term: ",
            id="cycle",
        ),
        pytest.param("a.csv", 'term,synonym\n"a,b\n', "line 2", id="open quote"),
        pytest.param("a.toml", "[terms]\na = 'b'\n", "terms.a: ", id="synonyms that are no list"),
        pytest.param("a.toml", "[terms]\na = ['b', ' ']\n", "terms.a.1: ", id="blank synonym"),
        pytest.param("a.toml", "[term]\na = ['b']\n", "term: ", id="unknown table"),
        pytest.param("a.toml", "[terms\n", "at line 1", id="no toml"),
        pytest.param("a.toml", "[groups]\ng = ['a']\n", "groups.g: ", id="group of one"),
        pytest.param(
            "a.toml", "[groups]\ng = ['a', 'A']\n", "groups.g: 'a' is given as its own", id="group twice"
        ),
        pytest.param(
            "a.toml", "[terms]\na=['b']\nb=['a']\n", "belong in one list under [groups]", id="two ways"
        ),
        pytest.param(
            "a.toml", "[options]\nplurals_of=['xx']\n", "options.plurals_of: unknown language 'xx'", id="xx"
        ),
        pytest.param(
            "a.toml",
            "[terms]\na=['b']\n[groups]\ng=['a', 'b']\n",
            "groups.g: 'a' has the synonym 'b' already, from terms.a",
            id="term and group",
        ),
        pytest.param("a.json", "{}", "a glossary is a .toml or a .csv file", id="other format"),
    ],
)
def test_a_wrong_file_says_where(tmp_path: Path, name: str, text: str, message: str) -> None:
    path = written(tmp_path, name, text)

    with pytest.raises(ConfigError) as error:
        load_glossary(path)

    assert str(path) in str(error.value)
    assert message in str(error.value)


def test_a_cycle_is_shown_in_its_direction(tmp_path: Path) -> None:
    path = written(tmp_path, "a.csv", "term,synonym\nbill,invoice\ninvoice,bill\n")

    with pytest.raises(ConfigError, match=r"(bill -> invoice -> bill|invoice -> bill -> invoice)"):
        load_glossary(path)


def test_a_chain_is_no_cycle(tmp_path: Path) -> None:
    lines = "".join(f"term{number},term{number + 1}\n" for number in range(5000))

    assert len(load_glossary(written(tmp_path, "a.csv", f"term,synonym\n{lines}"))) == 5000


def test_a_file_that_is_not_text_says_so(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"term,synonym\nl\xe9,x\n")

    with pytest.raises(ConfigError, match="not readable as UTF-8 text"):
        load_glossary(path)


def test_a_missing_file_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent\.csv"):
        load_glossary(tmp_path / "absent.csv")


async def test_a_folder_holds_one_file_a_tenant(tmp_path: Path) -> None:
    written(tmp_path, "acme.csv", "term,synonym\nrag,retrieval\n")
    written(tmp_path, "_shared.toml", "[terms]\nrag=['cloth']\n")
    written(tmp_path, "notes.md", "not a glossary")
    glossary = load_tenant_glossaries(tmp_path)

    assert await glossary.expand(QueryContext("acme"), "rag") == {"rag": ["retrieval"]}
    assert await glossary.expand(QueryContext("other"), "rag") == {"rag": ["cloth"]}


async def test_one_tenants_file_is_read_without_the_others(tmp_path: Path) -> None:
    written(tmp_path, "acme.csv", "term,synonym\nrag,retrieval\n")
    written(tmp_path, "broken.csv", "not a glossary")
    with pytest.raises(
        ConfigError, match=r"no glossary for tenant 'other'; add other\.toml or _shared\.toml"
    ):
        load_glossary_of("other", tmp_path)
    written(tmp_path, "_shared.csv", "term,synonym\nrag,cloth\n")

    assert await load_glossary_of("acme", tmp_path).expand(CTX, "rag") == {"rag": ["retrieval"]}
    assert await load_glossary_of("other", tmp_path).expand(CTX, "rag") == {"rag": ["cloth"]}


def test_a_tenant_has_one_file(tmp_path: Path) -> None:
    for name in ("acme.csv", "acme.toml"):
        written(tmp_path, name, "")

    with pytest.raises(ConfigError, match=r"tenant 'acme' has 'acme\.csv' already; keep one"):
        load_tenant_glossaries(tmp_path)


def test_a_missing_folder_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such folder"):
        load_tenant_glossaries(tmp_path / "absent")
