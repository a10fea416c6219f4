"""kill -9 in the middle of a run, and the same run again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.waiting import until

ROOT = Path(__file__).parents[2]
ROWS = 1_000_000
STATEMENT = f"SELECT * FROM 'datagen://?rows={ROWS}' INTO 'out/*.parquet'"


def _run(folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "penstock", "run", "-e", STATEMENT, "--name", "p"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PENSTOCK_CDS": "read"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.spark
def test_a_killed_run_is_done_anew(tmp_path: Path) -> None:
    """The second one waits for the first one's JVM, and leaves nothing of it."""
    with _run(tmp_path) as first:
        until(lambda: any((tmp_path / "out").glob(".penstock-*/**/*.parquet")), "a part of the rows", first)
        first.send_signal(signal.SIGKILL)
    assert not list((tmp_path / "out").glob("*.parquet"))
    with _run(tmp_path) as second:
        _, errors = second.communicate()
    assert second.returncode == 0, errors
    ids = pq.read_table(tmp_path / "out", columns=["id"])["id"].to_pylist()
    assert sorted(ids) == list(range(ROWS))
    assert not [path for path in (tmp_path / "out").iterdir() if path.name.startswith(".")]
