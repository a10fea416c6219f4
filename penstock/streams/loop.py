"""An event loop in a thread of its own, for clients that live in asyncio."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from penstock.errors import RunError

Result = TypeVar("Result")


class Loop:
    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"penstock-{name}", daemon=True)
        self._thread.start()
        self._closed = False

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Waits for what runs in the loop, and gives its result."""
        if self._closed:
            work.close()
            raise RunError("closed", "the streamer is closed")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def close(self) -> None:
        """Ends the loop, and what still runs in it."""
        if self._closed:
            return
        self.run(self._end())
        self._closed = True
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
