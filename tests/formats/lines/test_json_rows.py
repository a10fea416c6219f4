"""Three ways to decode JSON Lines, one result."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.formats.lines import json_rows
from penstock.formats.lines.decoding import Decoded
from penstock.formats.lines.json_line import decode_line, has_others
from penstock.formats.lines.json_rows import JsonRows
from penstock.formats.lines.json_shapes import Lines, Shapes, shape_of
from penstock.formats.lines.kinds import Field, Mismatch, build
from penstock.schema import Column
from tests.formats.dirty import JSON_COLUMNS, json_lines

FIELDS = [Field.of(Column(*column.split(" ", 1))) for column in JSON_COLUMNS.split(", ")]
Result = tuple[list[tuple[int, list[Any]]], dict[int, str]]


def plain(array: Any) -> list[Any]:
    """Values of an array; instants as numbers, since Python's do not span all times."""
    return list(
        (
            array.cast(pa.int64())
            if pa.types.is_timestamp(array.type)
            else array.cast(pa.int32())
            if pa.types.is_date32(array.type)
            else array
        ).to_pylist()
    )


def _by_reference(lines: list[bytes], fields: list[Field]) -> Result:
    rows: list[tuple[int, list[Any]]] = []
    bad = {}
    for number, line in enumerate(lines):
        found = _rows_of(line + b"\n", fields)
        if isinstance(found, str):
            bad[number] = found
        else:
            rows += [(number, row) for row in found]
    return rows, bad


def _rows_of(line: bytes, fields: list[Field]) -> list[list[Any]] | str:
    try:
        found = decode_line(line, fields, "UTC")
    except Mismatch as failure:
        return str(failure).encode("utf-8", "replace").decode()
    return [[plain(build(f, [v]))[0] for f, v in zip(fields, row, strict=True)] for row in found]


def _decoded(decoder: JsonRows, lines: list[bytes], fields: list[Field]) -> Result:
    decoded = decoder.decode(b"".join(line + b"\n" for line in lines))
    table, records = decoded.table(fields)
    columns = [plain(column) for column in table.columns[: len(fields)]]
    rows = [(int(n), [column[i] for column in columns]) for i, n in enumerate(records)]
    return rows, {bad.record: bad.error for bad in decoded.bad}


def _check(lines: list[bytes], fields: list[Field], monkeypatch: pytest.MonkeyPatch) -> None:
    expected = _by_reference(lines, fields)
    for few in (0, 1 << 30):
        monkeypatch.setattr(json_rows, "_FEW", few)
        without = JsonRows(fields, "UTC")
        monkeypatch.setattr(without._shapes, "decode", lambda lines, _: np.arange(len(lines)))
        for decoder in (JsonRows(fields, "UTC"), without):
            assert repr(_decoded(decoder, lines, fields)) == repr(expected)


def test_dirty_records(monkeypatch: pytest.MonkeyPatch) -> None:
    _check([line.encode() for line in json_lines()], FIELDS, monkeypatch)


def test_dirty_records_among_clean_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    clean = b'{"a": 1, "s": "x", "d": 1.5, "other": "y", "b": true}'
    dirty = [line.encode() for line in json_lines()]
    for start in range(0, len(dirty), 100):
        _check([clean] * 500 + dirty[start : start + 100], FIELDS, monkeypatch)


def test_bytes_that_are_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [b'{"s": "\xff"}', b'{"s": "ok"}', b"\xff", '{"s": "é"}'.encode(), b'{"\xfe": 1, "s": "x"}']
    _check(lines * 20, FIELDS, monkeypatch)


_SCALAR = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=6)
    | st.sampled_from(["1", "2026-01-02"])
)
_VALUE = _SCALAR | st.lists(_SCALAR, max_size=2) | st.dictionaries(st.sampled_from("as"), _SCALAR, max_size=2)
_KEYS = st.sampled_from(["a", "s", "d", "b", "m", "ts", "dt", "x", 'k"y', "a.b"])


@settings(deadline=None, suppress_health_check=[])
@given(
    st.lists(st.dictionaries(_KEYS, _VALUE, max_size=5), min_size=1, max_size=8),
    st.sampled_from([(", ", ": "), (",", ":"), (" , ", " : ")]),
    st.booleans(),
    st.binary(max_size=3),
    st.integers(0, 200),
)
def test_made_up_records(
    records: list[dict[str, Any]], separators: tuple[str, str], ascii: bool, noise: bytes, place: int
) -> None:
    lines = [
        json.dumps(r, separators=separators, ensure_ascii=ascii).encode("utf-8", "replace") for r in records
    ]
    noise = noise.replace(b"\n", b"").replace(b"\r", b"")
    lines.append(lines[0][:place] + noise + lines[0][place:])
    fields = [*FIELDS, Field.of(Column('k"y', "STRING")), Field.of(Column("a.b", "STRING", False))]
    with pytest.MonkeyPatch.context() as patch:
        _check(lines, FIELDS, patch)
        _check(lines, fields, patch)


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(), st.text(max_size=8), st.floats(), st.booleans()), min_size=1, max_size=20
    )
)
def test_records_of_one_shape(rows: list[tuple[int, str, float, bool]]) -> None:
    """Texts that break the shape, numbers that break the type: what a template must not get wrong."""
    lines = [json.dumps(dict(zip("asdb", row, strict=True)), ensure_ascii=False) for row in rows]
    with pytest.MonkeyPatch.context() as patch:
        _check([line.encode("utf-8", "replace") for line in lines], FIELDS, patch)


def _shaped(lines: list[bytes], end: bytes = b"\n") -> tuple[list[tuple[pa.Table, np.ndarray]], list[int]]:
    decoded = Decoded()
    left = Shapes(FIELDS, "UTC").decode(Lines(end.join(lines) + end), decoded)
    return decoded.parts, left.tolist()


def test_plain_records_are_decoded_by_their_shape() -> None:
    lines = [
        b'{"a": %d, "s": "x%d", "d": %d.5, "u": "y", "b": true, "z": null}' % (i, i, i) for i in range(100)
    ]
    [(table, numbers)], left = _shaped(lines)
    assert numbers.tolist() == list(range(100))
    assert not left
    assert table.column(0).to_pylist() == list(range(100))
    assert table.column(6)[99].as_py() == "x99"


def test_each_shape_has_its_lines() -> None:
    shapes = [
        b'{"a": %d, "s": "x, y: {z}"}',
        b'{"s": null, "a": %d}',
        b'{"a":%d}',
        b'{"s":"\xc3\xa9","a":%d}',
    ]
    lines = [shapes[i % 4] % i for i in range(100)]
    parts, left = _shaped(lines, b"\r\n")
    # A line that is not of plain characters is not taken for a shape; those of a shape may hold any.
    assert left == list(range(3, 100, 4))
    assert [numbers.tolist() for _, numbers in parts] == [list(range(i, 100, 4)) for i in range(3)]
    assert parts[0][0].column(6).to_pylist() == ["x, y: {z}"] * 25
    assert parts[1][0].column(6).null_count == 25


@pytest.mark.parametrize(
    "line",
    [
        b'{"a": 1, "s": "\\""}',
        b'{"a": "1", "s": "x"}',
        b'{"a": 1, "s": "x"',
        b'x{"a": 1, "s": "x"}',
        b'{"b": 1, "s": "x", 5}',
        b'{"a": 1, "t": "x"}x',
        b'{"a": 1 "s": "x"}',
        b'{"a": 01, "s": "x"}',
        b'{"a": , "s": "x"}',
        b'"""", ""',
        b"",
    ],
)
def test_lines_that_differ_from_a_shape_are_left(line: bytes) -> None:
    shape = b'{"a": 1, "s": "x"}'
    _, left = _shaped([shape, line, shape, line])
    # One number that is none may leave others near it.
    assert {1, 3} <= set(left)


@pytest.mark.parametrize(
    "line", [b"", b"5", b'{"a": {"b": 1}}', b'{"a": 1, "a": 2}', b'{"a": "x\\n"}', b'{"a": 1']
)
def test_lines_without_a_shape(line: bytes) -> None:
    assert shape_of(line + b"\n") is None


@pytest.mark.parametrize("count", [1, 100])
def test_other_keys_are_never_missed(count: int) -> None:
    """Each dirty record alone, and among clean ones; those that are bad are told in another way."""
    fields, known = FIELDS[:3], frozenset(field.name for field in FIELDS[:3])
    clean = [b'{"a": 1, "i": 2, "t": null}'] * (count - 1)
    decoder = JsonRows(fields, "UTC", known)
    assert not decoder.decode(b"\n".join([*clean, b'{"a": 1, "x": null}', b"{}"])).strange
    for line in map(str.encode, json_lines()):
        found = _rows_of(line + b"\n", fields)
        if not isinstance(found, str) and has_others(line, known):
            assert decoder.decode(b"\n".join([*clean, line])).strange, line


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b'{"a": 1}', False),
        (b'{"a": 1, "x": 2}', True),
        (b'{"a": 1, "x": null}', False),
        (b'{"a": {"x": 1}}', False),
        (b'[{"a": 1}, {"a": 2}]', False),
        (b'[{"a": 1}, {"x": 2}]', True),
        (b'\xef\xbb\xbf{"x": 1}', True),
        (b'{"\\u0061": 1}', False),
        (b'{"a": -INF}', True),  # who knows
        (b" \n", False),
    ],
)
def test_which_lines_have_other_keys(line: bytes, expected: bool) -> None:
    assert has_others(line, frozenset("a")) == expected


def test_rows_of_no_columns_are_counted() -> None:
    decoded = JsonRows([], "UTC").decode(b'{"a": 1}\n\n{"a": 2}\nx\n')
    table, records = decoded.table([])
    assert table.num_rows == 2
    assert np.array_equal(records, [0, 2])
    assert [bad.line for bad in decoded.bad] == [3]


def test_numbers_into_texts_stay_as_they_are_written() -> None:
    fields = [Field.of(Column("s", "STRING"))]
    decoded = JsonRows(fields, "UTC").decode(b'{"s": 1.50}\n{"s": {"x":  1}}\n{"s": true}\n')
    assert decoded.table(fields)[0].column(0).to_pylist() == ["1.50", '{"x":  1}', "true"]
