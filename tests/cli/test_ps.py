"""`ps`, `stop` and `reset`, without Spark: other processes are leases."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest
import typer

from penstock.catalog import Catalog, PipelineEntry
from penstock.cli.app import app
from penstock.cli.pipelines import complete_pipeline
from penstock.engine.leases import Lease
from penstock.engine.state import State
from tests.cli.command import Penstock

STATE = Path(".penstock")
ENDED = """
import sys
from pathlib import Path
from penstock.catalog import Catalog
from penstock.engine.leases import Lease
import os

catalog = Catalog(Path(sys.argv[1]))
entry = catalog.pipeline("p")
Lease(catalog, entry).__enter__()
catalog.start(entry.id, "SELECT 1", ["a"], ["b"])
os._exit(9)
"""


@pytest.fixture
def catalog(penstock: Penstock) -> Iterator[Catalog]:
    catalog = Catalog(STATE / "catalog.db")
    yield catalog
    catalog.close()


@pytest.fixture
def pipeline(catalog: Catalog) -> PipelineEntry:
    return catalog.register("p", "SELECT 1", ["in/*.jsonl"], ["out/*.parquet"])


def dies(catalog: Path) -> None:
    """A process that runs `p` ends without a word."""
    subprocess.run([sys.executable, "-c", ENDED, str(catalog)], cwd=Path(__file__).parents[2], check=False)


def test_nothing_has_run(penstock: Penstock) -> None:
    assert penstock("ps").err == "no pipeline has run yet\n"
    assert penstock("ps", "--json").out == ""
    assert not STATE.exists()


def test_who_runs_a_pipeline_is_shown(penstock: Penstock, catalog: Catalog, pipeline: PipelineEntry) -> None:
    state = State(STATE, pipeline.id)
    (state.checkpoint / "commits").mkdir(parents=True)
    (state.checkpoint / "commits" / "6").touch()
    state.tell({"lag": 12})
    with Lease(catalog, pipeline):
        catalog.start(pipeline.id, "SELECT 1", ["in/*.jsonl"], ["out/*.parquet"])
        (told,) = penstock("ps", "--json").json
        table = penstock("ps").out
    assert told["holder"]["process"] == os.getpid()
    assert (told["name"], told["state"], told["batches"], told["lag"]) == ("p", "running", 7, 12)
    assert (told["inputs"], told["outputs"]) == (["in/*.jsonl"], ["out/*.parquet"])
    _, head, _, row = table.splitlines()[:4]
    assert head.split() == ["name", "state", "since", "by", "batches", "lag", "from", "into"]
    assert f" {os.getpid()} " in row


def test_a_pipeline_whose_process_is_gone_is_dead(
    penstock: Penstock, catalog: Catalog, pipeline: PipelineEntry
) -> None:
    dies((STATE / "catalog.db").absolute())
    (told,) = penstock("ps", "--json").json
    assert (told["state"], told["lag"]) == ("dead", None)
    assert told["holder"]["user"]
    assert penstock("stop", "p", "--json").json[0]["error"]["code"] == "not-running"


def test_what_does_not_run_is_shown_when_asked_for(
    penstock: Penstock, catalog: Catalog, pipeline: PipelineEntry
) -> None:
    catalog.finish(pipeline.id, "finished", 3)
    assert penstock("ps").err == "no pipeline runs; --all shows those that ran\n"
    (told,) = penstock("ps", "--all", "--json").json
    assert (told["state"], told["batches"], told["holder"]) == ("finished", 3, None)


def test_stop_waits_until_it_has_ended(penstock: Penstock, catalog: Catalog, pipeline: PipelineEntry) -> None:
    ending: list[Thread] = []

    def end() -> None:
        own = Catalog(STATE / "catalog.db")
        own.finish(pipeline.id, "stopped", 1)
        lease.__exit__()
        own.close()

    def stop() -> None:
        ending.append(Thread(target=end))
        ending[0].start()

    lease = Lease(catalog, pipeline, stop=stop, seconds=3)
    lease.__enter__()
    catalog.start(pipeline.id, "SELECT 1", [], [])
    result = penstock("stop", "p")
    ending[0].join()
    assert result.code == 0
    first, last = result.err.splitlines()
    assert "ends after the batch at hand" in first
    assert f"process {os.getpid()}" in first
    assert last == "p: stopped"


def test_stop_need_not_wait(penstock: Penstock, catalog: Catalog, pipeline: PipelineEntry) -> None:
    with Lease(catalog, pipeline):
        catalog.start(pipeline.id, "SELECT 1", [], [])
        assert penstock("stop", "p", "--no-wait", "--json").json == [{"name": "p", "state": "stopping"}]
        assert penstock("ps", "--json").json[0]["state"] == "stopping"


@pytest.mark.parametrize("command", [("stop",), ("reset", "--yes")])
def test_an_unknown_name(penstock: Penstock, pipeline: PipelineEntry, command: tuple[str, ...]) -> None:
    result = penstock(*command, "pp", "--json")
    assert result.code == 2
    assert result.json[0]["error"]["code"] == "unknown-pipeline"
    assert result.json[0]["error"]["hint"] == "did you mean 'p'?"


def test_reset_says_where_the_old_state_stays(
    penstock: Penstock, catalog: Catalog, pipeline: PipelineEntry
) -> None:
    refused = penstock("reset", "p", "--json")
    assert (refused.code, refused.json[0]["error"]["code"]) == (2, "not-confirmed")
    result = penstock("reset", "p", "--yes")
    assert (result.code, pipeline.id in result.err) == (0, True)
    renewed = catalog.pipeline("p")
    assert renewed is not None
    assert renewed.id != pipeline.id


@pytest.mark.parametrize(("answer", "code"), [("n\n", 130), ("y\n", 0)])
def test_reset_asks_on_a_terminal(
    penstock: Penstock,
    catalog: Catalog,
    pipeline: PipelineEntry,
    monkeypatch: pytest.MonkeyPatch,
    answer: str,
    code: int,
) -> None:
    import io

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    assert penstock("reset", "p").code == code
    found = catalog.pipeline("p")
    assert found is not None
    assert (found.id == pipeline.id) == (code != 0)


def test_reset_refuses_what_runs(penstock: Penstock, catalog: Catalog, pipeline: PipelineEntry) -> None:
    with Lease(catalog, pipeline):
        result = penstock("reset", "p", "--yes", "--json")
    assert (result.code, result.json[0]["error"]["code"]) == (1, "already-running")


def test_names_are_completed(catalog: Catalog, pipeline: PipelineEntry) -> None:
    catalog.register("other", "SELECT 1", [], [])
    group = typer.main.get_command(app)
    context = group.commands["stop"].make_context("stop", ["x"])  # type: ignore[attr-defined]
    assert complete_pipeline(context, "") == ["other", "p"]
    assert complete_pipeline(context, "o") == ["other"]
    Path("penstock.yaml").write_text("unknown: 1\n")
    assert complete_pipeline(context, "") == []


def test_no_spark_is_imported(tmp_path: Path) -> None:
    code = (
        "import sys; from penstock.cli import main; main(['ps', '--all']); main(['stop', 'p']);"
        " main(['reset', 'p', '--yes']); sys.exit('pyspark' in sys.modules)"
    )
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
