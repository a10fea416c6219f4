from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import fastavro
import pyarrow.parquet as pq
import pytest

import penstock
from penstock.api import Done, Ran, Running, Session, Text
from penstock.engine.leases import Lease
from penstock.errors import DataError, PenstockError, RunError, SetupError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def session(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Session:
    monkeypatch.chdir(tmp_path)
    lines = [{"id": n, "amount": n * 1.5} for n in range(10)]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return Session(spark=spark.newSession())


def ran(session: Session, text: str, *, name: str | None = None) -> Ran:
    (outcome,) = session.run(text, name=name)
    assert isinstance(outcome, Ran)
    return outcome


def test_a_run_tells_what_it_moved(session: Session) -> None:
    outcome = ran(session, "SELECT id FROM 'in.jsonl' WHERE id < 4 INTO 'out/*.parquet'", name="copy")
    assert (outcome.name, outcome.rows, outcome.rejected, outcome.sinks) == ("copy", 4, 0, ("out/*.parquet",))
    assert sorted(pq.read_table("out")["id"].to_pylist()) == [0, 1, 2, 3]


def test_a_pipeline_leaves_its_state_and_keeps_its_id(session: Session) -> None:
    text = "SELECT id FROM 'in.jsonl' INTO 'out/*.parquet' WITH (mode = 'append')"
    first, second = ran(session, text, name="p"), ran(session, text, name="p")
    assert first.id == second.id
    folder = Path(".penstock/pipelines") / first.id
    assert (folder / "statement.sql").read_text() == text + ";\n"
    assert json.loads((folder / "plan.json").read_text())["sinks"][0]["write"] == "out/*.parquet"
    entry = session.catalog.pipeline("p")
    assert entry is not None
    assert (entry.state, entry.batches, entry.inputs, entry.outputs) == (
        "finished", 2, ("in.jsonl",), ("out/*.parquet",),
    )  # fmt: skip
    assert pq.read_table("out").num_rows == 20
    assert all(first.id in file.name for file in Path("out").iterdir())


def test_pipelines_are_named_by_file_statement_or_text(session: Session) -> None:
    text = "SELECT id FROM 'in.jsonl' INTO 'a/*.csv'; SELECT id FROM 'in.jsonl' INTO 'b/*.csv'"
    names = [o.name for o in session.run(text, "etl.sql") if isinstance(o, Ran)]
    assert names == ["etl", "etl-2"]
    options = "connector = 'files', path = 'c/', format = 'csv'"
    sink = f"CREATE SINK kept AS SELECT id FROM 'in.jsonl' WHERE id > 1 WITH ({options})"
    assert ran(session, sink).name == "kept"
    assert len(ran(session, "SELECT id FROM 'in.jsonl' INTO 'd/*.csv'").name) == 8


def test_a_batch_that_failed_is_delivered_once_when_it_runs_again(session: Session) -> None:
    text = "SELECT 1 / (id - 7 + {}) AS x FROM 'in.jsonl' INTO 'out/*.parquet' WITH (mode = 'append')"
    with pytest.raises(DataError, match="by zero"):
        session.run(text.format(0), name="p")
    assert not list(Path("out").glob("*"))
    entry = session.catalog.pipeline("p")
    assert entry is not None
    assert (entry.state, entry.batches) == ("failed", 0)
    ran(session, text.format(100), name="p")
    assert pq.read_table("out").num_rows == 10


def test_a_pipeline_that_runs_is_not_run_twice_at_once(session: Session) -> None:
    text = "SELECT id FROM 'in.jsonl' INTO 'out/*.parquet' WITH (mode = 'append')"
    ran(session, text, name="p")
    entry = session.catalog.pipeline("p")
    assert entry is not None
    with Lease(session.catalog, entry), pytest.raises(RunError, match="already-running"):
        session.run(text, name="p")
    assert ran(session, text, name="p").id == entry.id
    assert pq.read_table("out").num_rows == 20


def test_several_sinks_get_the_same_rows_of_one_read(session: Session) -> None:
    outcome = ran(session, "SELECT id, uuid() AS u FROM 'in.jsonl' INTO 'a/*.parquet', 'b/*.parquet'")
    assert outcome.rows == 10
    a, b = (pq.read_table(folder).sort_by("id").to_pydict() for folder in ("a", "b"))
    assert a == b


def test_bad_records_are_counted_or_kept_aside(session: Session, tmp_path: Path) -> None:
    with (tmp_path / "in.jsonl").open("a") as file:
        file.write('{"id": "x"}\n{"id": \n')
    source = (
        "CREATE OR REPLACE SOURCE s (id BIGINT, amount DOUBLE)"
        " WITH (connector = 'files', path = 'in.jsonl', {})"
    )
    session.run(source.format("on_error = 'skip'"))
    assert ran(session, "SELECT id FROM s INTO 'a/*.csv'").rejected == 2
    session.run(source.format("on_error = 'dead_letter'"))
    outcome = ran(session, "SELECT id FROM s INTO 'b/*.csv'")
    assert (outcome.rows, outcome.rejected) == (10, 2)
    letters = sorted(pq.read_table(outcome.dead_letters[0]).to_pylist(), key=lambda row: row["position"])
    told = [(json.loads(row["position"]), row["payload"], row["stage"], row["source"]) for row in letters]
    assert told == [
        ({"file": str(tmp_path / "in.jsonl"), "line": 11}, '{"id": "x"}', "read", "s"),
        ({"file": str(tmp_path / "in.jsonl"), "line": 12}, '{"id": ', "read", "s"),
    ]
    assert all(row["error"] and row["time"] for row in letters)
    session.run(source.format("on_error = 'dead_letter', dead_letter = 'letters/*.jsonl'"))
    assert ran(session, "SELECT id FROM s INTO 'c/*.csv'").dead_letters == ("letters/*.jsonl",)
    assert sum(len(f.read_text().splitlines()) for f in Path("letters").iterdir()) == 2


def test_what_spark_need_not_read_is_not_waited_for(session: Session) -> None:
    session.run("CREATE SOURCE s (id INT) WITH (connector='files', path='in.jsonl', on_error='skip')")
    assert ran(session, "SELECT id FROM s WHERE false INTO 'a/*.csv'").rejected == 0


def test_a_dry_run_moves_nothing(session: Session) -> None:
    checked = session.check("CREATE VIEW v AS SELECT id FROM 'in.jsonl'; SELECT * FROM v INTO 'out/*.csv'")
    made, moved = session.run_each(checked, Running(dry=True))
    assert isinstance(made, Done)
    assert isinstance(moved, Text)
    assert "columns: struct<id:bigint>" in moved.text
    assert session.catalog.objects() == session.catalog.pipelines() == []
    assert not Path("out").exists()


def test_a_text_with_a_mistake_runs_no_statement(session: Session) -> None:
    with pytest.raises(PenstockError):
        session.run("SELECT id FROM 'in.jsonl' INTO 'out/*.csv'; SELECT * FROM nothing")
    assert not Path("out").exists()


def test_rows_come_as_a_frame_inside_an_existing_session(session: Session, spark: SparkSession) -> None:
    frame = session.sql("SELECT SUM(id) AS total FROM 'in.jsonl'")
    assert frame.collect()[0].total == 45
    session.close()
    assert spark.range(3).count() == 3
    with pytest.raises(PenstockError, match="one SELECT"):
        session.sql("SHOW VIEWS")


def test_spark_is_ended_by_the_session_that_started_it(session: Session, spark: SparkSession) -> None:
    with Session() as other:
        assert other.sql("SELECT * FROM 'datagen:' WITH (rows = 3)").count() == 3
    assert spark.range(3).count() == 3


def test_the_package_offers_what_the_guide_uses(session: Session) -> None:
    assert penstock.Session is Session
    with pytest.raises(AttributeError):
        _ = penstock.nothing  # type: ignore[attr-defined]


def test_a_setting_holds_for_the_statements_after_it(session: Session) -> None:
    session.run("SET spark.sql.shuffle.partitions = 3")
    frame = session.sql("SELECT id % 5 AS k, COUNT(*) AS n FROM 'in.jsonl' GROUP BY 1")
    assert frame.sparkSession.conf.get("spark.sql.shuffle.partitions") == "3"
    with pytest.raises(PenstockError, match=r"cannot change spark\.master"):
        session.run("SET spark.master = 'local[1]'")


def test_secrets_stay_out_of_the_catalog_and_the_state(session: Session, tmp_path: Path) -> None:
    session.run(
        "CREATE SOURCE page (id INT) WITH (connector = 'http', url = 'http://me:hunter2@127.0.0.1:9/x.json',"
        " 'headers.authorization' = 'hunter3')"
    )
    session.run(
        "CREATE VIEW looked AS SELECT * FROM 'http://me:hunter4@127.0.0.1:9/x.json'"
        " WITH ('headers.authorization' = 'hunter5')"
    )
    entry = session.catalog.find("page")
    assert entry is not None
    assert "${secret:page." in entry.statement
    assert session.project.secrets().get("page.headers.authorization") == "hunter3"
    assert (tmp_path / ".penstock/secrets.json").stat().st_mode & 0o777 == 0o600
    for file in tmp_path.rglob("*"):
        if file.is_file() and file.name != "secrets.json":
            assert b"hunter" not in file.read_bytes(), file
    with pytest.raises((DataError, SetupError)) as caught:
        session.run("SELECT * FROM page")
    assert "hunter" not in str(caught.value)


def test_a_users_own_spark_does_as_ours(tmp_path: Path) -> None:
    """Its workers find Penstock, and statements mean the same, whatever its Python and its time zone."""
    other = tmp_path / "bin/python3"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\necho this Python has no penstock >&2\nexit 1\n")
    other.chmod(0o755)
    (tmp_path / "x.jsonl").write_text('{"id": 1}\n{"id": 2}\n')
    schema = {"type": "record", "name": "x", "fields": [{"name": "id", "type": "long"}]}
    with (tmp_path / "x.avro").open("wb") as file:
        fastavro.writer(file, schema, [{"id": 3}])
    script = """
import penstock
from pyspark.sql import SparkSession

builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
spark = builder.config("spark.sql.session.timeZone", "Asia/Tokyo").getOrCreate()
session = penstock.Session(spark=spark)
time = "CAST(TIMESTAMP '2026-01-01 00:00:00' AS BIGINT)"
print(session.sql(f"SELECT {time} AS seconds FROM 'x.jsonl'").first().seconds)
session.run("SELECT id FROM 'x.jsonl' INTO 'out/*.parquet'")
for file in ("x.jsonl", "x.avro"):
    print([row.id for row in session.sql(f"SELECT id FROM '{file}' ORDER BY id").collect()])
"""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYSPARK_")}
    environment["PATH"] = f"{other.parent}{os.pathsep}{environment['PATH']}"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["1767225600", "[1, 2]", "[3]"]
    assert sorted(pq.read_table(tmp_path / "out")["id"].to_pylist()) == [1, 2]
