"""What is seen on stderr while Spark works: a bar of tasks, as Spark's own tracker tells them; or, as soon as
streams run, a line for each of them.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from threading import Event, RLock, Thread
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

from penstock.cli import status

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from rich.console import Console
    from rich.live import Live
    from rich.progress import Progress

    from penstock.api import Pipeline

Outcome = TypeVar("Outcome")
_EVERY = 0.2


def watched(
    outcomes: Iterator[Outcome],
    spark: Callable[[], SparkSession | None],
    streams: Callable[[], Sequence[Pipeline]] = tuple,
) -> Iterator[Outcome]:
    """The same outcomes; while each of them is awaited a bar is shown, or how the streams stand."""
    while True:
        with _Screen(spark, streams):
            outcome = next(outcomes, None)
        if outcome is None:
            return
        yield outcome


class _Screen:
    def __init__(
        self, spark: Callable[[], SparkSession | None], streams: Callable[[], Sequence[Pipeline]]
    ) -> None:
        self._spark, self._streams = spark, streams
        self._stages: dict[int, tuple[int, int]] = {}
        self._shown: Progress | Live | None = None
        self._lock = RLock()
        self._done = Event()
        self._thread = Thread(target=self._watch, name="penstock-progress", daemon=True)
        self._stdout, self._stderr = sys.stdout, sys.stderr

    def __enter__(self) -> None:
        if self._stdout.isatty():
            sys.stdout = _ClearFirst(self._stdout, self)
        sys.stderr = _ClearFirst(self._stderr, self)
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join(timeout=2)
        self.clear()
        sys.stdout, sys.stderr = self._stdout, self._stderr

    def clear(self) -> None:
        """Takes what is shown off the screen until there is something new to show."""
        with self._lock:
            if self._shown is not None:
                self._shown.stop()

    def write(self, stream: TextIO, value: str) -> int:
        """Writes to the same terminal, never into a line that is shown."""
        with self._lock:
            self.clear()
            return stream.write(value)

    def _watch(self) -> None:
        # Whatever goes wrong in here, the work itself must go on.
        with contextlib.suppress(Exception):
            while not self._done.wait(_EVERY):
                self._draw()

    def _draw(self) -> None:
        spark, streams = self._spark(), self._streams()
        if streams:
            self._show_streams(streams)
            return
        if spark is None:
            self._show_tasks("starting Spark", 0, None)
            return
        if not self._count(spark.sparkContext.statusTracker()):
            return
        done, total = (sum(column) for column in zip(*self._stages.values(), strict=True))
        self._show_tasks("moving rows", done, total)

    def _count(self, tracker: Any) -> bool:
        """Takes in the tasks of active jobs; False when there is none."""
        active = False
        for job in map(tracker.getJobInfo, tracker.getActiveJobsIds()):
            for stage in map(tracker.getStageInfo, job.stageIds if job else ()):
                if stage is not None and stage.numTasks:
                    self._stages[stage.stageId] = (stage.numCompletedTasks, stage.numTasks)
                    active = True
        return active

    def _show_streams(self, streams: Sequence[Pipeline]) -> None:
        from rich.live import Live

        with self._lock:
            if self._done.is_set():
                return
            if not isinstance(self._shown, Live):
                self.clear()
                self._shown = Live(
                    console=_console(self._stderr),
                    transient=True,
                    auto_refresh=False,
                    redirect_stdout=False,
                    redirect_stderr=False,
                )
            self._shown.update(status.lines(streams))
            self._shown.start()
            self._shown.refresh()

    def _show_tasks(self, what: str, done: int, total: int | None) -> None:
        from rich.progress import Progress

        with self._lock:
            if self._done.is_set():
                return
            if not isinstance(self._shown, Progress):
                self.clear()
                self._shown = bar(_console(self._stderr))
            progress = self._shown
            (task,) = progress.task_ids or (progress.add_task(what, total=None, count=""),)
            count = f"{done}/{total} tasks" if total else ""
            progress.update(task, description=what, completed=done, total=total, count=count)
            progress.start()
            progress.refresh()


def _console(stream: TextIO) -> Console:
    from rich.console import Console

    return Console(file=stream)


def bar(console: Console) -> Progress:
    """A bar that goes when it ends, drawn when it is told to; tasks have a field `count`."""
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
        console=console,
        transient=True,
        auto_refresh=False,
        redirect_stdout=False,
        redirect_stderr=False,
    )


class _ClearFirst:
    """Stdout or stderr on the same terminal."""

    def __init__(self, stream: TextIO, screen: _Screen) -> None:
        self._stream, self._screen = stream, screen

    def write(self, value: str) -> int:
        return self._screen.write(self._stream, value)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
