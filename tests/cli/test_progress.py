from __future__ import annotations

import io
import sys
import threading
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from penstock.cli import progress, render, status
from penstock.engine.delivery import Delivered
from penstock.engine.progress import Progress
from tests.waiting import until

ERASED = "\x1b[2K"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setattr(progress, "_EVERY", 0.01)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return screen


class Tracker:
    """Spark's tracker with one running job of two stages."""

    def __init__(self) -> None:
        self.asked = 0
        self.counted = threading.Event()

    def getActiveJobsIds(self) -> list[int]:
        self.asked += 1
        if self.asked > 3:  # so often has been drawn before
            self.counted.set()
        return [0]

    def getJobInfo(self, job: int) -> SimpleNamespace:
        return SimpleNamespace(stageIds=[1, 2])

    def getStageInfo(self, stage: int) -> SimpleNamespace:
        return SimpleNamespace(stageId=stage, numTasks=10, numCompletedTasks=3)


def test_a_bar_counts_tasks_and_goes_before_rows_come(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_a_terminal(monkeypatch)
    tracker = Tracker()
    spark = SimpleNamespace(sparkContext=SimpleNamespace(statusTracker=lambda: tracker))

    def work() -> Iterator[str]:
        assert tracker.counted.wait(10)
        print("a row")
        yield "done"

    assert list(progress.watched(work(), lambda: spark)) == ["done"]  # type: ignore[arg-type,return-value]
    before, _, _ = terminal.getvalue().rpartition("a row\n")
    assert "6/20" in before
    assert before.endswith(ERASED)
    assert sys.stdout is terminal


def test_a_failure_passes_and_the_screen_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_a_terminal(monkeypatch)

    def work() -> Iterator[str]:
        raise ValueError("broken")
        yield

    with pytest.raises(ValueError, match="broken"):
        list(progress.watched(work(), lambda: None))
    assert sys.stdout is terminal


class Stream:
    """A stream that runs."""

    name, status = "orders", "running"

    def __init__(self) -> None:
        self.progress = Progress(rows_in=1200, lag=12, batch=7, rejected=3)
        self.progress.add(Delivered(900, 0, 1, (), 0.42))


def test_a_line_tells_how_a_stream_stands() -> None:
    stream = Stream()
    assert status.line(stream) == (  # type: ignore[arg-type]
        "orders: running, 1,200 rows in, 900 rows out, 0 rows/s, lag 12, batch 7 in 0.4 s, 3 bad, 1 refused"
    )
    stream.progress = Progress(files_in=3, bytes_in=2048, batches=1, rows=9)
    assert status.line(stream) == "orders: running, 3 files (2.0 KB) in, 9 rows out, 0 rows/s"  # type: ignore[arg-type]
    stream.progress, stream.status = Progress(), "waiting"
    assert status.line(stream) == "orders: waiting"  # type: ignore[arg-type]


def test_lines_of_streams_take_the_place_of_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_a_terminal(monkeypatch)
    monkeypatch.setenv("COLUMNS", "200")
    tracker = Tracker()
    spark = SimpleNamespace(sparkContext=SimpleNamespace(statusTracker=lambda: tracker))
    streams: list[Stream] = []

    def drawn(text: str, *, after: str) -> None:
        until(lambda: text in terminal.getvalue().partition(after)[2], f"{text!r} after {after!r}")

    def work() -> Iterator[str]:
        drawn("6/20", after="moving")
        streams.append(Stream())
        drawn("orders: running", after="6/20")
        asked = tracker.asked
        render.note("a note")
        drawn("orders: running", after="a note\n")
        assert tracker.asked == asked
        yield "done"

    assert list(progress.watched(work(), lambda: spark, lambda: streams)) == ["done"]  # type: ignore[arg-type,return-value]
    before, _, after = terminal.getvalue().partition("a note\n")
    assert before.endswith(ERASED)
    assert "tasks" not in after
    assert after.endswith(ERASED)
    assert sys.stderr is terminal
