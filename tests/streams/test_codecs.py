"""Values as payloads, and back."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import PenstockError
from penstock.streams import Record
from penstock.streams.codecs import as_bytes, codec

NOON = datetime(2024, 2, 3, 12, tzinfo=timezone.utc)


def values(*, infinite: bool) -> st.SearchStrategy[Any]:
    floats = st.floats(allow_nan=False, allow_infinity=infinite)
    scalars = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | floats | st.text()
    some = st.recursive(
        scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=10
    )
    return some.filter(lambda value: not isinstance(value, str))


def sent(value: Any, format: str) -> Record:
    return Record("news", 0, 0, NOON, as_bytes(value, codec(format)))


@given(values(infinite=False))
def test_json_comes_back(value: Any) -> None:
    assert sent(value, "json").json() == value


@given(values(infinite=True))
def test_msgpack_comes_back(value: Any) -> None:
    assert sent(value, "msgpack").msgpack() == value


no_lines = st.text(st.characters(exclude_categories=["Cs", "Cc"]))


@given(st.lists(no_lines, min_size=1))
def test_csv_comes_back(value: list[str]) -> None:
    assert sent(value, "csv").csv() == value


@pytest.mark.parametrize("format", ["json", "csv", "msgpack", "raw"])
def test_bytes_and_text_go_as_they_are(format: str) -> None:
    assert sent(b"\x00\xff", format).payload == b"\x00\xff"
    assert sent(bytearray(b"\x00"), format).payload == b"\x00"
    assert sent(memoryview(b"ab")[1:], format).payload == b"b"
    assert sent("ü", format).text() == "ü"


def test_a_dict_is_a_line_of_csv() -> None:
    assert sent({"a": 1, "b": 'x "y"'}, "csv").payload == b'1,"x ""y"""'


@pytest.mark.parametrize(
    ("value", "format"),
    [
        *(({1, 2}, "json"), ({"a": [float("nan")]}, "json"), (float("-inf"), "json"), (object(), "json")),
        *(({1}, "msgpack"), (2**70, "msgpack"), (5, "csv"), (5, "raw")),
    ],
)
def test_refuses_what_a_format_cannot_say(value: object, format: str) -> None:
    with pytest.raises(PenstockError) as refused:
        sent(value, format)
    assert refused.value.code == "bad-payload"


def test_an_unknown_format_names_the_nearest() -> None:
    with pytest.raises(PenstockError) as refused:
        codec("jsn")
    assert refused.value.code == "unknown-format"
    assert refused.value.hint == "did you mean 'json'?"
