"""What async programs wait for, done in a thread. asyncio is loaded only then: commands start without it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def aside(work: Callable[P, T], *words: P.args, **named: P.kwargs) -> Coroutine[Any, Any, T]:
    import asyncio

    return asyncio.to_thread(work, *words, **named)
