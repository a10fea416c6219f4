"""What becomes of a stream's tables when its records change: by change, `schema_evolution`, and format.

tests/engine/test_schema_matrix.py makes each change and reads each table back; docs.py prints it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Rows = tuple[dict[str, Any], ...]

FORMATS = ("Parquet", "JSON", "Delta", "Iceberg", "Hudi")
POLICIES = ("evolve", "freeze", "discard_row", "discard_value")


@dataclass(frozen=True)
class Cell:
    """What one table holds afterwards."""

    words: str
    rows: Rows
    types: Mapping[str, str] | None = None
    """Those of its columns, as Arrow has them; of files, those of the newest."""


@dataclass(frozen=True)
class Outcome:
    """What a run over the changed records does."""

    cells: Mapping[str, Cell]
    stops: str | None = None
    """The code of the error."""
    rejected: int = 0
    cure: Mapping[str, str] = field(default_factory=dict)
    """Options of the source with which the next run, after a stop, goes on; `columns` declares them."""
    cured: Outcome | None = None


@dataclass(frozen=True)
class Change:
    title: str
    source: str
    """The format of the files that are watched."""
    before: Rows
    after: Rows
    outcomes: Mapping[str, Outcome]
    types: tuple[Mapping[str, str], Mapping[str, str]] | None = None
    """Types of the columns before and after, where files tell them."""


def _alike(words: str, rows: Sequence[dict[str, Any]]) -> dict[str, Cell]:
    """All formats hold the same; but JSON, where a null is a field less, if there are nulls."""
    less = tuple({name: value for name, value in row.items() if value is not None} for row in rows)
    return {f: Cell(words, less if f == "JSON" else tuple(rows)) for f in FORMATS}


def _added(files: str, lines: str, tables: str, rows: Sequence[dict[str, Any]], new: str) -> dict[str, Cell]:
    """A column is added: what was written before stays in files, and is null in tables."""
    first, *others = rows
    older = {name: value for name, value in first.items() if name != new}
    return {
        **_alike(tables, rows),
        "Parquet": Cell(files, (older, *others)),
        "JSON": Cell(lines, _alike("", rows)["JSON"].rows),
    }


def _stopped(code: str, first: dict[str, Any], cure: dict[str, str], cured: Outcome) -> Outcome:
    return Outcome(_alike(f"stops: `{code}`", (first,)), stops=code, cure=cure, cured=cured)


def _grows() -> Change:
    first, second = {"id": 1, "n": 1}, {"id": 2, "n": 2}
    added = Outcome(
        _added(
            "added; files from before lack it",
            "in the rows that have it",
            "added; older rows null",
            ({**first, "city": None}, {**second, "city": None}, {"id": 3, "n": 3, "city": "Ulm"}),
            "city",
        )
    )
    return Change(
        "A column is added",
        "JSON",
        (first,),
        (second, {"id": 3, "n": 3, "city": "Ulm"}),
        {
            "evolve": added,
            "freeze": _stopped("schema-changed", first, {"schema_evolution": "evolve"}, added),
            "discard_row": Outcome(_alike("row left out, counted", (first, second)), rejected=1),
            "discard_value": Outcome(_alike("value left out", (first, second, {"id": 3, "n": 3}))),
        },
    )


def _renamed() -> Change:
    first = {"id": 1, "n": 1}
    added = Outcome(
        _added(
            "new name added, files from before lack it; old name null",
            "each row has its own name",
            "new name added, older rows null; old name null",
            ({**first, "m": None}, {"id": 2, "n": None, "m": 2}, {"id": 3, "n": None, "m": 3}),
            "m",
        )
    )
    kept = (first, {"id": 2, "n": None}, {"id": 3, "n": None})
    return Change(
        "A column is renamed",
        "JSON",
        (first,),
        ({"id": 2, "m": 2}, {"id": 3, "m": 3}),
        {
            "evolve": added,
            "freeze": _stopped("schema-changed", first, {"schema_evolution": "evolve"}, added),
            "discard_row": Outcome(_alike("rows left out, counted", (first,)), rejected=2),
            "discard_value": Outcome(_alike("value left out, old name null", kept)),
        },
    )


def _dropped() -> Change:
    first = {"id": 1, "n": 1}
    kept = (first, {"id": 2, "n": None}, {"id": 3, "n": None})
    cells = {**_alike("stays; null in new rows", kept)}
    cells["JSON"] = Cell("not in new rows", cells["JSON"].rows)
    outcomes = dict.fromkeys(POLICIES, Outcome(cells))
    return Change("A column is dropped", "JSON", (first,), ({"id": 2}, {"id": 3}), outcomes)


def _fractions() -> Change:
    first, second = {"id": 1, "n": 1}, {"id": 2, "n": 2}
    kept = Outcome(_alike("row left out, kept as a letter", (first, second)), rejected=1)
    stopped = _stopped("bad-record", first, {"on_error": "dead_letter"}, kept)
    return Change(
        "Whole numbers become fractions",
        "JSON",
        (first,),
        (second, {"id": 3, "n": 1.5}),
        dict.fromkeys(POLICIES, stopped),
    )


def _wider() -> Change:
    first, *others = rows = ({"id": 1, "n": 1}, {"id": 2, "n": 2}, {"id": 3, "n": 2**40})
    narrow, wide = {"id": "int64", "n": "int32"}, {"id": "int64", "n": "int64"}
    held = {f: Cell("type widens", rows, wide) for f in FORMATS}
    held["Parquet"] = Cell("wider in new files", rows, wide)
    held["JSON"] = Cell("as they come", rows)
    stopped = _stopped("column-types", first, {"columns": "id BIGINT, n BIGINT"}, Outcome(held))
    return Change(
        "A type widens: `INT` becomes `BIGINT`",
        "Parquet",
        (first,),
        tuple(others),
        dict.fromkeys(POLICIES, stopped),
        types=(narrow, wide),
    )


def _texts() -> Change:
    first = {"id": 1, "n": 1}
    numbers, texts = {"id": "int64", "n": "int64"}, {"id": "int64", "n": "string"}
    kept = Outcome(_alike("file left out, kept as a letter", (first,)), rejected=1)
    stopped = _stopped("column-types", first, {"on_error": "dead_letter"}, kept)
    return Change(
        "Numbers become texts: `BIGINT` becomes `STRING`",
        "ORC",
        (first,),
        ({"id": 2, "n": "2"},),
        dict.fromkeys(POLICIES, stopped),
        types=(numbers, texts),
    )


CHANGES = (_grows(), _wider(), _texts(), _fractions(), _renamed(), _dropped())
