"""CSV in bulk and by the reference: one result."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.formats.lines.csv_record import Dialect, Layout, Value, decode_record, skipped, split_record
from penstock.formats.lines.csv_rows import CsvRows
from penstock.formats.lines.kinds import Field, Mismatch, build
from penstock.schema import Column
from tests.formats.dirty import CSV_COLUMNS, csv_lines
from tests.formats.lines.test_json_rows import Result, plain

FIELDS = [Field.of(Column(*column.split(" ", 1))) for column in CSV_COLUMNS.split(", ")]
WIDTH = len(FIELDS)
THREE = [
    Field.of(Column("a", "INT")),
    Field.of(Column("b", "STRING")),
    Field.of(Column("c", "STRING", False)),
]


def _by_reference(lines: list[bytes], fields: list[Field], dialect: Dialect) -> Result:
    layout = Layout(len(fields), tuple(range(len(fields))))
    rows: list[tuple[int, list[Any]]] = []
    bad = {}
    for number, line in enumerate(lines):
        if skipped(line.decode("utf-8", "replace"), dialect):
            continue
        try:
            row = decode_record(line + b"\n", fields, layout, dialect, "UTC")
        except Mismatch as failure:
            bad[number] = str(failure)
        else:
            rows.append((number, [plain(build(f, [v]))[0] for f, v in zip(fields, row, strict=True)]))
    return rows, bad


def _decoded(data: bytes, fields: list[Field], dialect: Dialect) -> Result:
    decoded = CsvRows(fields, "UTC", dialect).decode(data, [len(fields), list(range(len(fields)))])
    table, records = decoded.table(fields)
    columns = [plain(column) for column in table.columns[: len(fields)]]
    rows = [(int(n), [column[i] for column in columns]) for i, n in enumerate(records)]
    return rows, {bad.line: bad.error for bad in decoded.bad}


def _check(lines: list[bytes], fields: list[Field], dialect: Dialect) -> None:
    assert repr(_decoded(b"\n".join(lines) + b"\n", fields, dialect)) == repr(
        _by_reference(lines, fields, dialect)
    )


@pytest.mark.parametrize(
    "dialect",
    [Dialect(), Dialect(escape="\\"), Dialect(quote="", escape=""), Dialect(null_value="abc", comment="#")],
)
def test_dirty_records(dialect: Dialect) -> None:
    _check([line.encode() for line in csv_lines()], FIELDS, dialect)


_TEXT = st.text(
    st.sampled_from("a1\",\\ \t#é;'") | st.characters(exclude_characters="\r\n", codec="utf-8"), max_size=6
)


@settings(deadline=None)
@given(
    st.lists(_TEXT | st.lists(_TEXT, min_size=3, max_size=3).map(",".join), max_size=12),
    st.sampled_from(
        [Dialect(), Dialect(escape="\\"), Dialect(delimiter="\t"), Dialect(delimiter="::", comment="#")]
    ),
)
def test_made_up_lines(lines: list[str], dialect: Dialect) -> None:
    _check([line.encode() for line in lines], THREE, dialect)


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(-9, 9), st.text(max_size=6), st.text(min_size=1, max_size=6)), max_size=12)
)
def test_what_a_writer_of_csv_writes(rows: list[tuple[int, str, str]]) -> None:
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n").writerows(rows)
    data = text.getvalue().encode("utf-8", "replace")
    found, bad = _decoded(data, THREE, Dialect(multiline=True))
    assert not bad
    expected = [[n, *(t.encode("utf-8", "replace").decode() for t in texts)] for n, *texts in rows]
    assert [row for _, row in found] == expected


def test_lines_in_quotes() -> None:
    data = b'1,"a\nb",x\r\n2,c,"d\n\n"\n3,"e",f,g\n\n4,"h"i,j\n'
    found, bad = _decoded(data, THREE, Dialect(multiline=True))
    assert [row for _, row in found] == [[1, "a\nb", "x"], [2, "c", "d\n\n"], [4, '"h"i', "j"]]
    assert bad == {5: "expected 3 values, found 4"}
    _, bad = _decoded(data, THREE, Dialect())
    assert min(bad) == 0
    assert "multiline" in bad[0]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_line_ends(end: bytes) -> None:
    found, bad = _decoded(end.join([b"1,a,b", b"2,,c", b"", b'3,"x","y"', b"4,d,e"]), THREE, Dialect())
    assert not bad
    assert [row for _, row in found] == [[1, "a", "b"], [2, None, "c"], [3, "x", "y"], [4, "d", "e"]]


def test_bytes_that_are_no_text() -> None:
    found, bad = _decoded(b"1,a,b\n2,\xff,c\n3,d,e\n", THREE, Dialect())
    assert [n for n, _ in found] == [0, 2]
    assert bad[1].startswith("not UTF-8")


def test_used_columns_only() -> None:
    fields = [Field.of(Column("c", "STRING")), Field.of(Column("a", "INT"))]
    decoded = CsvRows(fields, "UTC", Dialect()).decode(b"1,not a number,x\n2,,y\n3,z\n", [3, [2, 0]])
    table, _ = decoded.table(fields)
    assert [column.to_pylist() for column in table.columns] == [["x", "y"], [1, 2]]
    assert [bad.payload for bad in decoded.bad] == ["3,z"]


def test_rows_of_no_columns_are_counted() -> None:
    decoded = CsvRows([], "UTC", Dialect()).decode(b"1,2\n3,4\n5\n", [2, []])
    assert decoded.table([])[0].num_rows == 2
    assert len(decoded.bad) == 1


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("", [Value("", False)]),
        (",", [Value("", False), Value("", False)]),
        ('"",x', [Value("", True), Value("x", False)]),
        ('"a,b" ,c', [Value("a,b", True), Value("c", False)]),
        ('"a""b"', [Value('a"b', True)]),
        ('"a"b,c', [Value('"a"b', False), Value("c", False)]),
        ('a"b,c', [Value('a"b', False), Value("c", False)]),
    ],
)
def test_values_of_a_record(text: str, values: list[Value]) -> None:
    assert split_record(text, Dialect()) == values
