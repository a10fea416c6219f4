"""The matrix of scripts/schema_matrix.py: each change is made, and each table is read back by other means."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from hudi import HudiTable
from pyiceberg.catalog.sql import SqlCatalog
from schema_matrix import CHANGES, FORMATS, POLICIES, Change, Outcome

from penstock.api import Ran, Session
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

INTO = (
    "'out/parquet/*.parquet', 'out/json/*.json', 'delta://out/delta', 'iceberg://catalog.lake.t',"
    " 'hudi://out/hudi'"
)


@pytest.fixture
def session(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()
    with Session(spark=spark) as session:
        yield session


def put(change: Change, number: int) -> None:
    rows = (change.before, change.after)[number]
    if change.types:
        schema = pa.schema([(name, getattr(pa, kind)()) for name, kind in change.types[number].items()])
        write = {"Parquet": pq.write_table, "ORC": orc.write_table}[change.source]
        write(pa.Table.from_pylist(list(rows), schema), f"in/{number}.{change.source.lower()}")
    else:
        Path(f"in/{number}.json").write_text("".join(json.dumps(row) + "\n" for row in rows))


def caught_up(session: Session, change: Change, options: dict[str, str]) -> Ran:
    path = f"in/*.{change.source.lower()}"
    told = ", ".join(f"{name} = '{value}'" for name, value in options.items() if name != "columns")
    source = f"'{path}' WITH (watch = true, {told})"
    if columns := options.get("columns"):
        where = f"connector = 'files', path = '{path}', watch = true"
        session.run(f"CREATE SOURCE declared ({columns}) WITH ({where}, {told})")
        source = "declared"
    _, ran = session.run(f"SELECT * FROM {source} INTO {INTO}", name="p", until_caught_up=True)
    assert isinstance(ran, Ran)
    return ran


def parquet() -> list[pa.Table]:
    files = sorted(Path("out/parquet").glob("*.parquet"), key=lambda file: file.stat().st_mtime_ns)
    return [pq.read_table(file) for file in files]


def lines() -> list[pa.Table]:
    texts = [text for file in Path("out/json").glob("*.json") for text in file.read_text().splitlines()]
    return [pa.Table.from_pylist([json.loads(text)]) for text in texts]


def delta() -> list[pa.Table]:
    return [DeltaTable("out/delta").to_pyarrow_table()]


def iceberg() -> list[pa.Table]:
    state = Path.cwd() / ".penstock"
    catalog = SqlCatalog("catalog", uri=f"sqlite:///{state}/iceberg.db", warehouse=f"file://{state}")
    return [catalog.load_table("lake.t").scan().to_arrow()]


def hudi() -> list[pa.Table]:
    table = pa.Table.from_batches(HudiTable(str(Path("out/hudi").absolute())).read())
    return [table.select([name for name in table.column_names if not name.startswith("_hoodie_")])]


READERS = {"Parquet": parquet, "JSON": lines, "Delta": delta, "Iceberg": iceberg, "Hudi": hudi}


def check(session: Session, outcome: Outcome) -> None:
    """Whether each table holds what its cell says."""
    for format in FORMATS:
        cell = outcome.cells[format]
        if format == "Delta" and cell.types:  # delta-rs does not read a table in which a type became wider
            tables = [session.sql("SELECT * FROM 'delta://out/delta'").toArrow()]
        else:
            tables = READERS[format]()
        rows = [row for table in tables for row in table.to_pylist()]
        assert sorted(rows, key=lambda row: row["id"]) == list(cell.rows), format
        if cell.types:
            assert {field.name: str(field.type) for field in tables[-1].schema} == cell.types, format


def run(session: Session, change: Change, outcome: Outcome, options: dict[str, str]) -> None:
    """Runs over the changed records, and once more with the cure when it stops."""
    if outcome.stops is None:
        ran = caught_up(session, change, options)
        assert (ran.rows, ran.rejected) == (len(change.after) - outcome.rejected, outcome.rejected)
        letters = session.dead_letters("p").letters() if "on_error" in options else ()
        assert len(letters) == (outcome.rejected if "on_error" in options else 0)
    else:
        with pytest.raises(PenstockError) as caught:
            caught_up(session, change, options)
        assert caught.value.code == outcome.stops
    check(session, outcome)
    if outcome.cured:
        run(session, change, outcome.cured, {**options, **outcome.cure})


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.title.split(":")[0].replace(" ", "-"))
def test_each_table_holds_what_the_matrix_says(session: Session, change: Change, policy: str) -> None:
    options = {"schema_evolution": policy}
    put(change, 0)
    assert caught_up(session, change, options).rows == len(change.before)
    put(change, 1)
    run(session, change, change.outcomes[policy], options)
