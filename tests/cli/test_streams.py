"""Streams of a process of their own: how they end, go on, and tell of themselves."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest

from tests.waiting import until

ROOT = Path(__file__).parents[2]
WATCH = (
    "SELECT id FROM 'in/*.jsonl' WITH (watch = true, format = 'json', files_per_batch = 1)"
    " INTO 'out/*.parquet'"
)

pytestmark = pytest.mark.spark


def command(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "penstock", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PENSTOCK_CDS": "read"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@contextmanager
def streaming(folder: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """A process that runs the stream; it is killed when a test has failed."""
    process = command(folder, "run", "-e", WATCH, "--name", "p", *options)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def put(folder: Path, *ids: int) -> None:
    """Files of one row each, there all at once."""
    (folder / "in").mkdir(exist_ok=True)
    for id in ids:
        aside = folder / "in" / f".{id}"
        aside.write_text(json.dumps({"id": id}) + "\n")
        aside.rename(folder / "in" / f"{id}.jsonl")


def ids(folder: Path) -> list[int]:
    if not list((folder / "out").glob("*.parquet")):
        return []
    return sorted(row[0] for row in duckdb.sql(f"SELECT id FROM '{folder}/out/*.parquet'").fetchall())


def by_signal(one: signal.Signals) -> Callable[[Path, subprocess.Popen[str]], None]:
    return lambda folder, process: process.send_signal(one)


def by_command(folder: Path, process: subprocess.Popen[str]) -> None:
    with command(folder, "stop", "p") as stopping:
        _, told = stopping.communicate(timeout=60)
    assert stopping.returncode == 0, told
    assert f"process {process.pid}" in told
    assert told.endswith("p: stopped\n")


@pytest.mark.parametrize(
    "stop", [by_signal(signal.SIGTERM), by_signal(signal.SIGINT), by_command], ids=["term", "int", "stop"]
)
def test_a_stream_ends_clean_and_the_next_run_goes_on(
    tmp_path: Path, stop: Callable[[Path, subprocess.Popen[str]], None]
) -> None:
    put(tmp_path, *range(5))
    with streaming(tmp_path) as first:
        until(lambda: ids(tmp_path), "rows", first)
        stop(tmp_path, first)
        _, told = first.communicate(timeout=60)
    assert first.returncode == 0, told
    assert "Traceback" not in told
    early = ids(tmp_path)
    assert re.search(rf"^p: {len(early)} rows? into out/\*\.parquet", told, re.MULTILINE), told
    put(tmp_path, 5)
    with streaming(tmp_path, "--until-caught-up", "--json") as second:
        out, told = second.communicate(timeout=120)
    assert second.returncode == 0, told
    assert ids(tmp_path) == list(range(6))
    *_, last = map(json.loads, out.splitlines())
    assert last["ran"]["rows"] == 6 - len(early)


def test_a_stream_tells_of_itself(tmp_path: Path) -> None:
    put(tmp_path, 1)
    with streaming(tmp_path, "--json", "--metrics-port", "0") as process:
        assert process.stdout is not None
        address = json.loads(process.stdout.readline())["metrics"]
        assert json.loads(process.stdout.readline())["started"]["name"] == "p"
        first = json.loads(process.stdout.readline())["progress"]
        put(tmp_path, 2)
        second = json.loads(process.stdout.readline())["progress"]
        metrics = urllib.request.urlopen(address, timeout=10).read().decode()
        with command(tmp_path, "ps", "--json") as listing:
            (standing,) = map(json.loads, listing.communicate(timeout=60)[0].splitlines())
        process.terminate()
        *_, ran = map(json.loads, process.communicate(timeout=60)[0].splitlines())
    assert (first["name"], first["batch"], first["rows_out"], first["files_in"]) == ("p", 0, 1, 1)
    assert (second["batch"], second["rows_out"], second["total"]["rows_out"]) == (1, 1, 2)
    assert 'penstock_rows_out_total{pipeline="p",sink="out/*.parquet"} 2\n' in metrics
    assert 'penstock_running{pipeline="p"} 1\n' in metrics
    assert (standing["state"], standing["batches"], standing["holder"]["process"]) == (
        "running",
        2,
        process.pid,
    )
    assert (ran["ran"]["rows"], ran["ran"]["batches"]) == (2, 2)
