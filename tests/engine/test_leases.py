from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from threading import Event

import psutil
import pytest

from penstock.catalog import Catalog, PipelineEntry
from penstock.engine.leases import Lease
from penstock.errors import RunError

ROOT = Path(__file__).parents[2]

HOLD = """
import subprocess, sys, time
from pathlib import Path
from penstock.catalog import Catalog
from penstock.engine.leases import Lease

catalog = Catalog(Path(sys.argv[1]))
worker = subprocess.Popen(["sleep", sys.argv[2]], start_new_session=True)
with Lease(catalog, catalog.pipeline("p"), processes=(worker.pid,)):
    print(worker.pid, flush=True)
    time.sleep(60)
"""


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return Catalog(tmp_path / "catalog.db")


@pytest.fixture
def pipeline(catalog: Catalog) -> PipelineEntry:
    return catalog.register("p", "SELECT 1", [], [])


def test_a_second_holder_is_told_who_is_the_first(catalog: Catalog, pipeline: PipelineEntry) -> None:
    with Lease(catalog, pipeline) as lease:
        lease.check()
        with pytest.raises(RunError) as caught, Lease(catalog, pipeline):
            pass
    assert caught.value.code == "already-running"
    assert f"process {os.getpid()}" in caught.value.message
    assert "its lease ends in" in str(caught.value.hint)


def test_each_holder_has_a_higher_number(catalog: Catalog, pipeline: PipelineEntry) -> None:
    fences = []
    for _ in range(3):
        with Lease(catalog, pipeline) as lease:
            fences.append(lease.fence)
    assert fences == [1, 2, 3]


def test_a_lease_that_is_not_renewed_ends(catalog: Catalog, pipeline: PipelineEntry) -> None:
    first = Lease(catalog, pipeline, seconds=0.3)
    first._renew = lambda: None  # type: ignore[method-assign]
    first._thread._target = first._renew  # type: ignore[attr-defined]
    with first:
        time.sleep(0.4)
        with Lease(catalog, pipeline) as second:
            second.check()
            with pytest.raises(RunError, match="lease-lost"):
                first.check()


def test_a_lease_is_renewed_until_another_takes_it(catalog: Catalog, pipeline: PipelineEntry) -> None:
    with Lease(catalog, pipeline, seconds=0.3) as lease:
        time.sleep(0.8)
        lease.check()
        catalog.take_lease(pipeline.id, "{}", time.time() + 60, lambda _: True)
        time.sleep(0.8)
        with pytest.raises(RunError, match="lease-lost"):
            lease.check()
    # What the other holds is not given back.
    left = catalog.lease(pipeline.id)
    assert left is not None
    assert (left.fence, left.until > time.time()) == (2, True)


def test_a_holder_is_asked_to_stop(catalog: Catalog, pipeline: PipelineEntry) -> None:
    asked = Event()
    with Lease(catalog, pipeline, stop=asked.set, seconds=0.3):
        assert not asked.wait(0.3)
        catalog.ask_to_stop(pipeline.id)
        assert asked.wait(10)
    with Lease(catalog, pipeline, stop=asked.clear, seconds=0.3):
        time.sleep(0.5)
        assert asked.is_set()


def test_a_killed_holder_is_followed_once_its_workers_have_ended(
    catalog: Catalog, pipeline: PipelineEntry, tmp_path: Path
) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path / "catalog.db"), "3"],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert holder.stdout is not None
    worker = int(holder.stdout.readline())
    with pytest.raises(RunError, match=f"process {holder.pid}"), Lease(catalog, pipeline):
        pass
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    holder.stdout.close()
    with Lease(catalog, pipeline) as lease:
        assert lease.fence == 2
        assert not psutil.pid_exists(worker) or psutil.Process(worker).status() == psutil.STATUS_ZOMBIE
