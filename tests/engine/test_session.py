from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.engine import session as sessions
from penstock.engine.gateway import MODULE_OPTIONS, log_flags
from penstock.engine.session import close_session, open_session
from penstock.errors import SetupError
from tests.servers.kafka import Kafka

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("master", "settings", "expected"),
    [
        ("local", {}, True),
        ("local[*]", {"spark.sql.shuffle.partitions": "3"}, True),
        ("local[2]", {"spark.driver.memory": "2g"}, True),
        ("local[2]", {"spark.jars.packages": "a:b:1"}, False),
        ("local[2]", {"spark.driver.extraJavaOptions": "-Dx=1"}, False),
        ("local-cluster[1,1,512]", {}, False),
        ("spark://host:7077", {}, False),
        ("yarn", {}, False),
        ("k8s://https://host", {}, False),
    ],
)
def test_only_local_masters_go_without_spark_submit(
    master: str, settings: dict[str, str], expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in sessions._SUBMIT_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    assert sessions._direct(master, settings) is expected
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--verbose pyspark-shell")
    assert sessions._direct(master, settings) is False


def test_as_much_is_logged_as_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PENSTOCK_LOG", raising=False)
    assert not [flag for flag in log_flags() if flag.startswith("-Dpenstock.log")]
    monkeypatch.setenv("PENSTOCK_LOG", "info")
    assert "-Dpenstock.log=info" in log_flags()


@pytest.mark.spark
def test_defaults(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.ansi.enabled") == "true"
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"
    assert spark.sparkContext.uiWebUrl is None


@pytest.mark.spark
def test_spark_shows_no_secrets_of_stores_and_catalogs(spark: SparkSession) -> None:
    """In what it keeps of each query for its page, and for the log of events."""
    catalog, jdbc = "spark.sql.catalog.c.", "jdbc:postgresql://h/db?password=geheim"
    secrets = {
        "fs.azure.account.key.acc.dfs.core.windows.net": "geheim",
        "fs.azure.sas.fixed.token.acc.dfs.core.windows.net": "geheim",
        "fs.gs.auth.service.account.private.key": "geheim",
        "fs.s3a.access.key": "geheim",
        "fs.s3a.session.token": "geheim",
        f"{catalog}credential": "geheim",
        f"{catalog}header.Authorization": "geheim",
        f"{catalog}s3.access-key-id": "geheim",
        f"{catalog}s3.secret-access-key": "geheim",
        f"{catalog}uri": jdbc,
    }
    own = {"fs.azure.account.auth.type": "SharedKey", f"{catalog}type": "rest"}
    asked: Any = open_session()
    for key, value in (secrets | own).items():
        asked.conf.set(key, value)
    convert, scala = asked._jvm.scala.jdk.javaapi.CollectionConverters, asked._jvm.scala
    assert asked.sql("SELECT 'whose settings are told'").collect()
    asked.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    told = asked._jsparkSession.sharedState().statusStore().executionsList()
    shown = dict(convert.asJava(told.last().modifiedConfigs()))
    assert shown.items() >= own.items()
    assert [key for key in secrets if "geheim" in shown[key]] == []
    # Those that Spark starts with stand on a page of their own.
    pairs = asked._jvm.java.util.ArrayList()
    for key, value in (secrets | own).items():
        pairs.add(scala.Tuple2(key, value))
    conf = asked.sparkContext._jsc.sc().conf()
    told = convert.asJava(asked._jvm.org.apache.spark.util.Utils.redact(conf, convert.asScala(pairs).toSeq()))
    shown = {pair._1(): pair._2() for pair in told}
    assert shown.items() >= own.items()
    assert [key for key in secrets if "geheim" in shown[key]] == []


@pytest.mark.spark
def test_opens_within_a_session_that_runs(spark: SparkSession) -> None:
    inner = open_session(settings={"spark.sql.shuffle.partitions": "7"})
    assert inner.sparkContext is spark.sparkContext
    assert inner.conf.get("spark.sql.shuffle.partitions") == "7"
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"


@pytest.mark.spark
def test_what_is_fixed_at_the_start_is_refused_later(spark: SparkSession) -> None:
    open_session(settings={"spark.ui.enabled": "false"})
    with pytest.raises(SetupError, match=r"spark\.ui\.enabled") as caught:
        open_session(settings={"spark.ui.enabled": "true"})
    assert caught.value.code == "setting-too-late"


@pytest.mark.spark
def test_module_options_are_those_of_spark(spark: SparkSession) -> None:
    options = spark._jvm.org.apache.spark.launcher.JavaModuleOptions.defaultModuleOptionArray()
    ours = {"-XX:+IgnoreUnrecognizedVMOptions", "--add-modules=jdk.incubator.vector", *MODULE_OPTIONS}
    assert set(options) == ours


@pytest.mark.spark
def test_a_session_we_did_not_start_goes_on(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "_ours", None)
    close_session()
    assert spark.range(3).count() == 3


@pytest.fixture(params=["short", "long"])
def temporary(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A folder for temporary files; under a long path there can be no sockets."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder) if request.param == "short" else Path(tempfile.mkdtemp("x" * 60, dir=folder))


@pytest.mark.spark
def test_a_process_from_start_to_end(tmp_path: Path, temporary: Path) -> None:
    """Nothing is printed but what the script prints, a failing task included, and nothing stays behind."""
    script = textwrap.dedent("""
        import sys
        from penstock.engine.session import close_session, open_session, prepare

        def where(batches):
            import pyarrow as pa
            for batch in batches:
                yield pa.RecordBatch.from_pydict({"python": [sys.executable] * len(batch)})

        prepare(master="local[2]")
        spark = open_session(master="local[2]", app_name="first")
        print(spark.conf.get("spark.python.unix.domain.socket.enabled", "false"))
        print({row.python for row in spark.range(2).mapInArrow(where, "python STRING").collect()})
        try:
            spark.sql("SELECT CAST('x' AS INT) FROM range(3)").collect()
        except Exception as failure:
            print(failure.getCondition())
        close_session()
        print(open_session(master="local[1]", app_name="second").sparkContext.appName)
        close_session()
    """)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PENSTOCK_CDS": "read", "TMPDIR": str(temporary)}
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment,
        check=False,
    )
    assert done.stderr == ""
    sockets = str(len(str(temporary)) < 40).lower()
    assert done.stdout.splitlines() == [sockets, str({sys.executable}), "CAST_INVALID_INPUT", "second"]
    assert list(tmp_path.iterdir()) == []
    assert list(temporary.iterdir()) == []


@pytest.mark.spark
def test_spark_starts_anew_for_what_it_needs_from_the_start(tmp_path: Path) -> None:
    """An own session that is idle takes statements that need extensions; one that is busy refuses them."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.jsonl").write_text('{"id": 1}\n')
    program = """
        from penstock import Session
        from penstock.errors import SetupError

        with Session() as session:
            session.run("SELECT * FROM 'in/*.jsonl' INTO 'out/*.parquet'")
            session.run("SELECT * FROM 'out/' INTO 'delta://table'")
            before = session.spark()
            session.run("SELECT * FROM 'in/*.jsonl' INTO 'delta://table' WITH (mode = 'append')")
            assert session.spark() is before
            watching = session.start("SELECT * FROM 'in/*.jsonl' WITH (watch = true) INTO 'delta://watched'")
            try:
                session.run("SELECT * FROM 'delta://table' INTO 'iceberg://catalog.db.t'")
            except SetupError as failure:
                assert failure.code == "setting-too-late", failure
            else:
                raise AssertionError("a stream runs, and Spark was started anew")
            watching.stop()
            watching.wait(60)
            session.run("SELECT * FROM 'delta://table' INTO 'iceberg://catalog.db.t'")
            before = session.spark()
            assert session.sql("SELECT * FROM 'iceberg://catalog.db.t'").count() == 2
            assert session.sql("SELECT * FROM 'delta://table'").count() == 2
            assert session.spark() is before
    """
    run_program(program, tmp_path)


@pytest.mark.spark
@pytest.mark.server
def test_streams_find_jars_that_came_after_spark(kafka: Kafka, tmp_path: Path) -> None:
    """Spark shows an added jar to the thread that adds it; a stream has threads of its own."""
    kafka.create_topic("late", 1)
    kafka.produce("late", [(None, '{"id": 1}')])
    (tmp_path / "1.jsonl").write_text('{"id": 1}\n')
    program = f"""
        from penstock import Session

        topic = "kafka://{kafka.bootstrap}/late"
        with Session() as session:
            session.run("SELECT * FROM '1.jsonl' INTO 'out/*.parquet'")
            session.run(f"SELECT * FROM '{{topic}}' INTO '{{topic}}-copy'", until_caught_up=True)
    """
    run_program(program, tmp_path)
    assert [record.value for record in kafka.rows("late-copy")] == [b'{"id":1}']


def run_program(program: str, folder: Path) -> None:
    """Runs it in a process of its own, whose Spark starts with what it asks for first."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
