"""What async programs wait for, done in threads. asyncio is loaded only then: commands start without it.

There are as many threads as there is work at once: of those that asyncio has, as many as there are cores and
a few, idle consumers would hold them all.
"""

from __future__ import annotations

import atexit
import contextvars
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future

P = ParamSpec("P")
T = TypeVar("T")

REST = 2.0
"""Seconds after which a thread ends that has nothing to do."""
GRACE = 2.0
"""Seconds for which the end of a program waits for what is under way: longer than a fetch takes."""


class Crew:
    """Threads that grow in number with the work, and end when there is none."""

    def __init__(self) -> None:
        self._work: deque[Callable[[], None]] = deque()
        lock = threading.Lock()
        self._changed, self._done = threading.Condition(lock), threading.Condition(lock)
        self._idle = 0
        self._busy = 0

    def do(self, work: Callable[[], None]) -> None:
        """Begins at once."""
        with self._changed:
            self._work.append(work)
            self._busy += 1
            if self._idle >= len(self._work):
                self._changed.notify()
            else:
                # What is under way does not keep the interpreter from ending.
                threading.Thread(target=self._run, name="penstock-aside", daemon=True).start()

    def leave(self) -> None:
        """Waits a little for what is under way: libraries may not like to lose the interpreter."""
        end = time.monotonic() + GRACE
        with self._changed:
            while self._busy and (left := end - time.monotonic()) > 0:
                self._done.wait(left)

    def _run(self) -> None:
        while (work := self._next()) is not None:
            try:
                work()
            finally:
                with self._changed:
                    self._busy -= 1
                    self._done.notify_all()

    def _next(self) -> Callable[[], None] | None:
        with self._changed:
            self._idle += 1
            end = time.monotonic() + REST
            while not self._work and (left := end - time.monotonic()) > 0:
                self._changed.wait(left)
            self._idle -= 1
            return self._work.popleft() if self._work else None


_crew = Crew()


def _begin_anew() -> None:
    """A process that was forked has none of the threads."""
    global _crew
    _crew = Crew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)
atexit.register(lambda: _crew.leave())


def begin(work: Callable[P, T], *words: P.args, **named: P.kwargs) -> Future[T]:
    """Does it in a thread; whoever waits for it may be cancelled, it is not."""
    from concurrent.futures import Future

    future: Future[T] = Future()
    future.set_running_or_notify_cancel()
    context = contextvars.copy_context()

    def do() -> None:
        try:
            result = context.run(partial(work, *words, **named))
        except BaseException as failure:  # noqa: BLE001 (it is raised where it is waited for)
            future.set_exception(failure)
        else:
            future.set_result(result)

    _crew.do(do)
    return future


async def aside(work: Callable[P, T], *words: P.args, **named: P.kwargs) -> T:
    import asyncio

    return await asyncio.wrap_future(begin(work, *words, **named))


async def within(future: Future[Any], seconds: float | None) -> None:
    """Returns when it is done, or after so long; raises what it failed with."""
    import asyncio

    waited_for = asyncio.wrap_future(future)
    try:
        done, _ = await asyncio.wait({waited_for}, timeout=seconds)
        if done:
            waited_for.result()
    finally:
        waited_for.cancel()
