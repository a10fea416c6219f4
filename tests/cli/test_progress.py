from __future__ import annotations

import io
import sys
import threading
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from penstock.cli import progress

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
