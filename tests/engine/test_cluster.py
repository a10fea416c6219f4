"""Statements on a real cluster: what is decoded, staged and kept aside there, and a machine that is lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.servers.cluster import Cluster
from tests.servers.kafka import Kafka
from tests.waiting import until

ROOT = Path(__file__).parents[2]
ROWS = 20_000

pytestmark = [pytest.mark.spark, pytest.mark.server]


@pytest.fixture
def project(tmp_path: Path, cluster: Cluster) -> Path:
    """A project whose master is the cluster, with ROWS rows in 4 files and a bad record in one of them."""
    settings = {**cluster.settings, "spark.shuffle.io.retryWait": "1s"}
    (tmp_path / "penstock.yaml").write_text(json.dumps({"master": cluster.url, "spark": settings}))
    (tmp_path / "in").mkdir()
    for part in range(4):
        lines = [json.dumps({"id": n, "name": f"naïve {n}"}) for n in range(part, ROWS, 4)]
        (tmp_path / "in" / f"{part}.json").write_text("\n".join(lines) + "\nbad\n" * (part == 2))
    return tmp_path


def ids(folder: Path) -> list[int]:
    return sorted(pq.read_table(folder, columns=["id"])["id"].to_pylist())


def start(folder: Path, *command: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *command],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_statements_run_on_workers(project: Path) -> None:
    """By Spark's readers and by our Python, with a jar, over a staged folder, bad records kept aside."""
    script = textwrap.dedent("""
        import os
        import psutil
        import penstock
        from penstock.engine.session import own_processes

        with penstock.Session() as session:
            for outcome in session.run(
                '''
                SELECT id, name FROM 'in/*.json' WITH (on_error = 'dead_letter') INTO 'out/*.parquet';
                SELECT * FROM 'out/*.parquet' INTO 'avro/*.avro';
                SELECT id FROM 'datagen://?rows=1000&splits=4' INTO 'made/*.parquet';
                SELECT id FROM 'avro/*.avro' INTO 'again/*.parquet', 'memory://again';
                '''
            ):
                print(outcome.rows, outcome.rejected)
            (jvm,) = own_processes()
            print(psutil.Process(jvm).name(), psutil.Process(jvm).ppid() == os.getpid())
    """)
    with start(project, "-c", script) as run:
        out, errors = run.communicate()
    assert run.returncode == 0, errors
    assert out.splitlines() == [f"{ROWS} 1", f"{ROWS} 0", "1000 0", f"{ROWS} 0", "java True"]
    assert ids(project / "out") == ids(project / "again") == list(range(ROWS))
    assert ids(project / "made") == list(range(1000))
    (letters,) = (project / ".penstock" / "pipelines").glob("*/dead_letters")
    (letter,) = pq.read_table(letters).to_pylist()
    assert letter["payload"] == "bad"
    assert json.loads(letter["position"]) == {"file": str(project / "in" / "2.json"), "line": ROWS // 4 + 1}
    folders = [project / name for name in ("out", "avro", "made", "again")]
    assert not [path for folder in folders for path in folder.iterdir() if path.name.startswith((".", "_"))]


def test_a_worker_that_is_lost_costs_no_row(project: Path, cluster: Cluster) -> None:
    """With it go the tasks that it runs, and the rows that it holds for the others."""
    statement = """
        SET spark.sql.shuffle.partitions = 40;
        SET spark.sql.adaptive.coalescePartitions.enabled = false;
        SELECT id, COUNT(*) AS n FROM 'in/*.json' WITH (on_error = 'skip') GROUP BY id INTO 'out/*.parquet'
    """
    target = project / "out"
    with start(project, "-m", "penstock", "run", "-e", statement, "--json") as run:
        until(lambda: list(target.glob(".penstock-*/**/*.parquet"))[1:], "files are written", run)
        assert cluster.executors(0)
        try:
            cluster.kill_worker(0)
            assert not list(target.glob("*.parquet")), "the job was over before the worker was killed"
            out, errors = run.communicate()
        finally:
            cluster.start()
    assert run.returncode == 0, errors
    assert "Lost executor" in errors
    assert json.loads(out.splitlines()[-1])["ran"]["rows"] == ROWS
    counts = Counter(tuple(row.values()) for row in pq.read_table(target).to_pylist())
    assert counts == Counter((n, 1) for n in range(ROWS))
    assert not [path for path in target.iterdir() if path.name.startswith((".", "_"))]


def test_a_stream_outlives_a_worker(project: Path, cluster: Cluster, kafka: Kafka) -> None:
    """From Kafka into files and, exactly once, into Kafka; with our Python, and jars, on the workers."""
    kafka.create_topic("clustered", 4)
    kafka.produce("clustered", ((str(n), json.dumps({"id": n, "name": f"n{n}"})) for n in range(ROWS)))
    statement = f"""
        SELECT id, name FROM 'kafka://{kafka.bootstrap}/clustered' WITH (max_rows_per_batch = {ROWS // 5})
        INTO 'out/*.parquet',
          'kafka://{kafka.bootstrap}/clustered-out' WITH (delivery_guarantee = 'exactly_once', key = 'id')
    """
    command = ("-m", "penstock", "run", "-e", statement, "--name", "p", "--until-caught-up", "--json")
    with start(project, *command) as run:
        until(lambda: any(project.glob(".penstock/pipelines/*/checkpoint/commits/0")), "a batch", run)
        try:
            cluster.kill_worker(0)
            assert not list(project.glob(".penstock/pipelines/*/checkpoint/commits/4")), "it was over before"
            out, errors = run.communicate()
        finally:
            cluster.start()
    assert run.returncode == 0, errors
    assert json.loads(out.splitlines()[-1])["ran"]["rows"] == ROWS
    assert ids(project / "out") == list(range(ROWS))
    sent = [json.loads(record.value or "")["id"] for record in kafka.rows("clustered-out")]
    assert sorted(sent) == list(range(ROWS))
