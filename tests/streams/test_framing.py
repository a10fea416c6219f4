"""Bytes as payloads, in whatever pieces they come."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import pairwise

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import DataError
from penstock.streams import framing
from penstock.streams.framing import Framed, frames
from penstock.streams.message import Record
from penstock.streams.shown import framer
from tests.streams.test_consuming import NOON

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc"), inner, max_size=3),
    max_leaves=6,
)
CUTS = st.lists(st.integers(0, 200), max_size=6)


def pieces(content: bytes, cuts: Iterable[int]) -> list[bytes]:
    places = sorted({0, *(min(cut, len(content)) for cut in cuts), len(content)})
    return [content[a:b] for a, b in pairwise(places)]


def framed(format: str, content: bytes, cuts: Iterable[int], key: str | None = None) -> list[Framed]:
    taking = frames(format, "stdin", key=key)
    got = [one for piece in pieces(content, cuts) for one in taking.feed(piece)]
    got += taking.end()
    assert taking.waiting == 0
    return got


@given(st.lists(VALUES, max_size=5), CUTS, st.booleans())
def test_json_is_the_same_in_any_pieces(values: list[object], cuts: list[int], ended: bool) -> None:
    lines = [json.dumps(value, ensure_ascii=False).encode() for value in values]
    content = b"\n".join(lines) + (b"\n" if ended else b"")
    assert framed("ndjson", content, cuts) == [(line, None) for line in lines]


@given(st.lists(VALUES, max_size=5), CUTS)
def test_messagepack_is_the_same_in_any_pieces(values: list[object], cuts: list[int]) -> None:
    packed = [msgpack.packb(value) for value in values]
    assert framed("msgpack", b"".join(packed), cuts) == [(one, None) for one in packed]


@given(st.lists(st.lists(st.text('a", \n', min_size=1), min_size=2, max_size=3), max_size=5), CUTS)
def test_csv_is_the_same_in_any_pieces(rows: list[list[str]], cuts: list[int]) -> None:
    records = [",".join('"' + field.replace('"', '""') + '"' for field in row).encode() for row in rows]
    got = framed("csv", b"".join(record + b"\n" for record in records), cuts, key="2")
    assert got == [(record, row[1].encode()) for record, row in zip(records, rows, strict=True)]


@given(st.lists(st.binary(max_size=20).map(lambda line: line.replace(b"\n", b"")), max_size=5), CUTS)
def test_raw_lines_come_back_as_they_were(lines: list[bytes], cuts: list[int]) -> None:
    messages = [Record("s", 0, n, NOON, line) for n, line in enumerate(lines)]
    content = framer("raw")(messages)
    assert framed("raw", content, cuts) == [(line, None) for line in lines]


@pytest.mark.parametrize("format", ["ndjson", "raw", "csv", "msgpack"])
def test_what_never_ends_is_refused(format: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framing, "LONGEST", 1000)
    taking = frames(format, "stdin")
    begins = {"csv": b'"', "msgpack": b"\xdb\xff\xff\xff\xff"}.get(format, b"")
    list(taking.feed(begins + b"x" * 900))
    with pytest.raises(DataError, match=r"more than 1,000 bytes|never closed") as caught:
        list(taking.feed(b"x" * 200 + (b"\n" if format == "csv" else b"")))
    assert caught.value.code == "bad-line"


@pytest.mark.parametrize("line", [b"[" * 100_000, b'{"a":' * 100_000])
def test_deep_nesting_is_a_bad_line(line: bytes) -> None:
    with pytest.raises(DataError):
        framed("ndjson", line, [])


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ("\ufeff".encode() + b'{"k": "begins with a mark"}', b"begins with a mark"),
        (b'{"k": "1", "half": "\\ud800"}', b"1"),
        (b'{"k": 1e400}', b"Infinity"),
        (b'{"k": "2", "deep": ' + b"[" * 300 + b"]" * 300 + b"}", b"2"),
    ],
)
def test_what_only_the_slow_reader_of_json_takes_is_taken(line: bytes, key: bytes) -> None:
    assert framed("ndjson", line + b"\n", [], key="k") == [(line, key)]


@given(st.text('{}[]",:-.0189eE+aNtrufl \t\\"\u00e4\ud7ff', max_size=12))
def test_lines_are_json_if_json_says_so(text: str) -> None:
    line = text.encode()
    try:
        json.loads(text, parse_constant=lambda word: 1 / 0)
        wanted = [(line.strip(), None)]
    except (ValueError, ZeroDivisionError):
        wanted = []
    bad: list[DataError] = []
    got = list(frames("ndjson", "stdin", bad=bad.append).feed(line + b"\n"))
    assert got == wanted
    assert len(bad) == (1 if line.strip() and not wanted else 0)
