"""Two processes that write one table: no commit takes the place of another."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable
from pyiceberg.catalog.sql import SqlCatalog

from penstock.api import Session
from penstock.connectors.compiling import compiled
from penstock.connectors.delta.committing import commit_safely
from penstock.errors import DataError

from .buckets import S3Subject

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.server]

TIMES = 2
APPENDS = """
import sys
from penstock.api import Session

who, times, *tables = sys.argv[1:]
with Session() as session:
    assert session.sql("SELECT * FROM 'one.jsonl'").count() == 1  # before it is known what Spark needs
    for n in range(int(times)):
        row = f"SELECT '{who}' AS who, {n} AS n FROM 'one.jsonl'"
        ways = {"appended": "mode = 'append'", "merged": "merge_on = 'who, n'"}
        into = [f"INTO '{table}_{way}' WITH ({told})" for table in tables for way, told in ways.items()]
        text = ";".join(f"{row} {one}" for one in into)
        session.run(text, name=f"{who}-{n}")
"""


@pytest.fixture
def bucket(s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> S3Subject:
    monkeypatch.chdir(tmp_path)
    subject = S3Subject()
    subject.server = s3
    subject.make_bucket()
    Path("penstock.yaml").write_text(json.dumps({"defaults": {"s3": subject.credentials()}}))
    Path("one.jsonl").write_text('{"one": 1}\n')
    return subject


def test_two_processes_write_to_one_table(bucket: S3Subject) -> None:
    """They make it together, too; some are appended to, some merged into. Others than Penstock read them."""
    tables = ("delta://t", f"delta+{bucket.at('lake/t')}", "iceberg://catalog.db.t")
    command = [sys.executable, "-c", APPENDS]
    writers = [
        subprocess.Popen([*command, who, str(TIMES), *tables], stderr=subprocess.PIPE, text=True)
        for who in ("a", "b")
    ]
    ended = [(writer.communicate(timeout=300)[1], writer.returncode) for writer in writers]
    assert [code for _, code in ended] == [0, 0], ended
    wanted = Counter((who, n) for who in ("a", "b") for n in range(TIMES))
    catalog = SqlCatalog("catalog", uri=f"sqlite:///{Path.cwd()}/.penstock/iceberg.db")
    access = bucket.server.storage_options
    for name in ("t_appended", "t_merged"):
        read = {
            "folder": DeltaTable(name).to_pyarrow_table(),
            "S3": DeltaTable(bucket.at(f"lake/{name}"), storage_options=access).to_pyarrow_table(),
            "Iceberg": catalog.load_table(f"db.{name}").scan().to_arrow(),
        }
        for where, rows in read.items():
            assert Counter((row["who"], row["n"]) for row in rows.to_pylist()) == wanted, (name, where)


def test_a_try_that_was_killed_leaves_no_table(spark: SparkSession, tmp_path: Path) -> None:
    """Its log without a version is no table, and does not keep one from being made."""
    (tmp_path / "t/_delta_log").mkdir(parents=True)
    (tmp_path / "t/_delta_log/.00000000000000000000.json.tmp").touch()
    (tmp_path / "one.jsonl").write_text('{"one": 1}\n')
    with Session(spark=spark) as session:
        session.run(f"SELECT * FROM '{tmp_path}/one.jsonl' INTO 'delta://{tmp_path}/t'")
    assert DeltaTable(tmp_path / "t").to_pyarrow_table().to_pylist() == [{"one": 1}]


def test_a_log_that_another_removes_before_it_has_a_version(spark: SparkSession, tmp_path: Path) -> None:
    """As another writer does that makes way for the same table."""
    (tmp_path / "one.jsonl").write_text('{"one": 1}\n')
    tables = [tmp_path / f"t{n}" for n in range(6)]
    made = threading.Event()

    def remove() -> None:
        left = {table / "_delta_log" for table in tables}
        while left and not made.is_set():
            for log in tuple(left):
                with contextlib.suppress(OSError):
                    log.rmdir()
                    left.discard(log)

    remover = threading.Thread(target=remove)
    remover.start()
    try:
        with Session(spark=spark) as session:
            for table in tables:
                session.run(f"SELECT * FROM '{tmp_path}/one.jsonl' INTO 'delta://{table}'")
    finally:
        made.set()
        remover.join()
    assert [DeltaTable(table).to_pyarrow_table().to_pylist() for table in tables] == [[{"one": 1}]] * 6


def test_a_folder_of_something_else(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "one.jsonl").write_text('{"one": 1}\n')
    with Session(spark=spark) as session, pytest.raises(DataError) as failure:
        session.run(f"SELECT * FROM '{tmp_path}/one.jsonl' INTO 'delta://{tmp_path}'")
    assert failure.value.code == "not-a-table"


@pytest.mark.parametrize("place", ["folder", "s3"])
@pytest.mark.parametrize("other", ["theirs", "ours"])
def test_a_version_that_another_makes_meanwhile(
    spark: SparkSession, bucket: S3Subject, place: str, other: str
) -> None:
    """It is left as it is, and one is told; unless it is the same one, whose answer was lost."""
    at = bucket.at("log") if place == "s3" else str(Path("log").resolve())
    Path("log").mkdir()
    session: Any = bucket.session(spark)
    commit_safely(session)
    jvm, gateway = session._jvm, session.sparkContext._gateway
    configuration = session._jsparkSession.sessionState().newHadoopConf()
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    path = jvm.org.apache.hadoop.fs.Path(at, "00000000000000000007.json")
    parts = gateway.new_array(jvm.java.lang.Object, 3)
    parts[0], parts[1], parts[2] = path, configuration, other
    meeting = compiled(jvm, __package__, "Meeting.java", loader).getClassLoader()
    lines = meeting.loadClass("penstock.tests.Meeting").getConstructors()[0].newInstance(parts)
    store = jvm.org.apache.spark.sql.delta.storage.LogStore.apply(session._jsparkSession)
    lines = jvm.scala.jdk.javaapi.CollectionConverters.asScala(lines)
    if (place, other) == ("s3", "ours"):
        store.write(path, lines, False, configuration)
    else:
        with pytest.raises(Exception, match="FileAlreadyExistsException"):
            store.write(path, lines, False, configuration)
    (told,) = session.read.text(f"{at}/00000000000000000007.json").collect()
    assert told.value == other
    assert not [file for file in Path("log").iterdir() if not file.name.endswith((".json", ".crc"))]
