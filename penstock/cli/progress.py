"""A bar on stderr while Spark works: tasks done and known so far, as Spark's own tracker tells them."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from threading import Event, RLock, Thread
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from rich.progress import Progress

Outcome = TypeVar("Outcome")
_EVERY = 0.2


def watched(outcomes: Iterator[Outcome], spark: Callable[[], SparkSession | None]) -> Iterator[Outcome]:
    """The same outcomes; a bar is shown while each of them is awaited."""
    while True:
        with _Bar(spark):
            outcome = next(outcomes, None)
        if outcome is None:
            return
        yield outcome


class _Bar:
    def __init__(self, spark: Callable[[], SparkSession | None]) -> None:
        self._spark = spark
        self._stages: dict[int, tuple[int, int]] = {}
        self._progress: Progress | None = None
        self._lock = RLock()
        self._done = Event()
        self._thread = Thread(target=self._watch, name="penstock-progress", daemon=True)
        self._stdout: TextIO | None = None

    def __enter__(self) -> None:
        if sys.stdout.isatty():
            self._stdout, sys.stdout = sys.stdout, _ClearFirst(sys.stdout, self.clear)
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join(timeout=2)
        self.clear()
        if self._stdout is not None:
            sys.stdout = self._stdout

    def clear(self) -> None:
        """Takes the bar off the screen until there is something new to show."""
        with self._lock:
            if self._progress is not None:
                self._progress.stop()

    def _watch(self) -> None:
        # Whatever goes wrong in here, the work itself must go on.
        with contextlib.suppress(Exception):
            while not self._done.wait(_EVERY):
                self._draw()

    def _draw(self) -> None:
        spark = self._spark()
        if spark is None:
            self._show("starting Spark", 0, None)
            return
        if not self._count(spark.sparkContext.statusTracker()):
            return
        done, total = (sum(column) for column in zip(*self._stages.values(), strict=True))
        self._show("moving rows", done, total)

    def _count(self, tracker: Any) -> bool:
        """Takes in the tasks of active jobs; False when there is none."""
        active = False
        for job in map(tracker.getJobInfo, tracker.getActiveJobsIds()):
            for stage in map(tracker.getStageInfo, job.stageIds if job else ()):
                if stage is not None and stage.numTasks:
                    self._stages[stage.stageId] = (stage.numCompletedTasks, stage.numTasks)
                    active = True
        return active

    def _show(self, what: str, done: int, total: int | None) -> None:
        with self._lock:
            if self._done.is_set():
                return
            progress = self._progress = self._progress or _made()
            (task,) = progress.task_ids or (progress.add_task(what, total=None, count=""),)
            count = f"{done}/{total} tasks" if total else ""
            progress.update(task, description=what, completed=done, total=total, count=count)
            progress.start()
            progress.refresh()


def _made() -> Progress:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
    )

    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[count]}"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
        auto_refresh=False,
        redirect_stdout=False,
        redirect_stderr=False,
    )


class _ClearFirst:
    """Stdout on the same terminal: rows must not be written into the bar's line."""

    def __init__(self, stream: TextIO, clear: Callable[[], None]) -> None:
        self._stream, self._clear = stream, clear

    def write(self, value: str) -> int:
        self._clear()
        return self._stream.write(value)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
