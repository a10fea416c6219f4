"""A pipeline that was started, and runs beside whatever its program does."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from penstock.api.outcomes import Ran

if TYPE_CHECKING:
    from penstock.engine.progress import Progress
    from penstock.engine.streams import Stream


class Pipeline:
    """Look at it, stop it, wait for it; `await pipeline` does the last in a program of coroutines."""

    def __init__(self, stream: Stream, sinks: tuple[str, ...]) -> None:
        self._stream = stream
        self._sinks = sinks

    @property
    def name(self) -> str:
        return self._stream.name

    @property
    def id(self) -> str:
        return self._stream.id

    @property
    def status(self) -> str:
        """`starting`, `waiting`, `running`, `stopping`, `finished`, `stopped` or `failed`."""
        return self._stream.progress.state

    @property
    def progress(self) -> Progress:
        """What it has done since it was started."""
        return self._stream.progress

    def stop(self) -> None:
        """Lets it end after the batch at hand; returns at once."""
        self._stream.stop()

    def wait(self, seconds: float | None = None) -> bool:
        """Whether it has ended, within so many seconds; raises what it failed of."""
        return self._stream.wait(seconds)

    def __await__(self) -> Generator[Any, None, Ran]:
        yield from asyncio.to_thread(self.wait).__await__()
        return self.ran()

    def ran(self) -> Ran:
        """What it has done so far, as a statement that has run tells it."""
        done = self.progress
        return Ran(
            self.name, self.id, done.rows, done.rejected, self._sinks, tuple(done.dead_letters),
            done.seconds, done.refused, done.batches,
        )  # fmt: skip
