from __future__ import annotations

import dataclasses
import re
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import Place, StatementError
from penstock.sql.dialect import tokenize
from penstock.sql.format import format_sql
from penstock.sql.parse import parse, read
from tests.fuzzing import mutations
from tests.sql.corpus import EVERYTHING

COMMENTS = (" -- {}\n", " /* {} */ ", "\n-- {}\n", "\n/* {} */\n", " /* {}\n more */ ", "\n\n-- {}\n\n")


_WRITTEN = ("text", "failed_cast", "start", "end", "at")


def meaning(value: Any) -> Any:
    """A statement without places, text and the whitespace in a watermark."""
    if isinstance(value, Place):
        return None
    if dataclasses.is_dataclass(value):
        names = [f.name for f in dataclasses.fields(value) if f.name not in _WRITTEN]
        return type(value).__name__, *(meaning(getattr(value, name)) for name in names)
    if isinstance(value, tuple):
        return tuple(map(meaning, value))
    return "".join(value.split()) if isinstance(value, str) else value


def words(text: str) -> list[str]:
    """The tokens, keywords in lower case, without semicolons that end nothing."""
    text = text.removeprefix("\ufeff")
    names = {start for _, _, found in read(text, "") for start in found}
    spans = dict.fromkeys((token.start, token.end + 1) for token in tokenize(text))
    found = [text[start:end] if start in names else text[start:end].lower() for start, end in spans]
    found = [*(" ".join(word.split()) for word in found), ";"]
    return [word for i, word in enumerate(found) if word != ";" or found[i - 1 : i] not in ([], [";"])]


def check(text: str) -> None:
    printed = format_sql(text)
    assert format_sql(printed) == printed
    assert words(printed) == words(text)
    assert list(map(meaning, parse(printed))) == list(map(meaning, parse(text)))


@pytest.mark.parametrize("text", EVERYTHING)
def test_everything_keeps_its_meaning(text: str) -> None:
    check(text)
    if "'" not in text and "`" not in text:
        check(text.lower())


@settings(max_examples=500, deadline=None)
@given(mutations([text for text in EVERYTHING if not text.startswith("SET")]))
def test_whatever_parses_keeps_its_meaning(text: str) -> None:
    try:
        parse(text)
    except StatementError:
        with pytest.raises(StatementError):
            format_sql(text)
    else:
        check(text)


def commented(text: str, random: Random) -> tuple[str, int]:
    pieces, position, count = [], 0, 0
    for start, end in dict.fromkeys((token.start, token.end + 1) for token in tokenize(text)):
        pieces.append(text[position:start])
        if random.random() < 0.15:
            pieces.append(random.choice(COMMENTS).format(f"c{count}"))
            count += 1
        pieces.append(text[start:end])
        position = end
    return "".join([*pieces, text[position:]]), count


@settings(max_examples=500, deadline=None)
@given(st.sampled_from([text for text in EVERYTHING if not text.startswith("SET")]), st.integers())
def test_comments_are_kept(text: str, seed: int) -> None:
    with_comments, count = commented(text, Random(seed))
    try:
        parse(with_comments)
    except StatementError:
        return  # a comment between `a.` and `b` of an option's name
    check(with_comments)
    printed = format_sql(with_comments)
    assert set(re.findall(r"\bc\d+\b", printed)) >= {f"c{i}" for i in range(count)}


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("", ""),
        ("-- only this", "-- only this\n"),
        (";;", ""),
        ("select 1", "SELECT 1;\n"),
        ("\ufeffselect 1;", "SELECT 1;\n"),
        ("select 1; -- one\nselect 2", "SELECT 1; -- one\n\nSELECT 2;\n"),
        ("-- head\n\n-- about it\nselect 1", "-- head\n\n-- about it\nSELECT 1;\n"),
        ("select 1 -- last", "SELECT 1; -- last\n"),
        ("select a from t where b is null", "SELECT a\nFROM t\nWHERE b IS NULL;\n"),
        ("select date, end, t.from, left(a,1) from t", "SELECT date, end, t.from, left(a, 1)\nFROM t;\n"),
        ("select a select_, b as end from t", "SELECT a select_, b AS end\nFROM t;\n"),
        ("set  x = Local[2]  y", "SET x = Local[2]  y;\n"),
        ("show sources", "SHOW SOURCES;\n"),
        ("restart pipeline select_", "RESTART PIPELINE select_;\n"),
        (
            "insert into a select * from 'u' with(format=json) with(mode='append')",
            "INSERT INTO a\nSELECT *\nFROM 'u' WITH (format = json)\nWITH (mode = 'append');\n",
        ),
        (
            "create source s (a int,b map<string,int> not null) with(a.b=1) format plain encode json",
            "CREATE SOURCE s (a int, b map<string, int> NOT NULL)\nWITH (a.b = 1)\n"
            "FORMAT plain ENCODE json;\n",
        ),
        (
            "select a from t where " + " and ".join(f"column_{i} between {i} and {i + 1}" for i in range(4)),
            "SELECT a\nFROM t\nWHERE column_0 BETWEEN 0 AND 1\n"
            + "\n".join(f"  AND column_{i} BETWEEN {i} AND {i + 1}" for i in range(1, 4))
            + ";\n",
        ),
        (
            f"select a from (select {'b' * 60} from {'c' * 40}) x",
            f"SELECT a\nFROM (\n  SELECT {'b' * 60}\n  FROM {'c' * 40}\n) x;\n",
        ),
    ],
)
def test_layout(text: str, printed: str) -> None:
    assert format_sql(text) == printed
    assert format_sql(printed) == printed


def test_what_does_not_parse_is_refused() -> None:
    with pytest.raises(StatementError) as caught:
        format_sql("SELECT 1;\nSELEC 2", "a.sql")
    assert str(caught.value.at) == "a.sql:2:1"
