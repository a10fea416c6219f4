"""Trying again: with longer and longer waits, and never at the same moment as everybody else."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import timedelta
from itertools import count
from typing import TypeVar

Result = TypeVar("Result")
_LONGEST = 60.0


def wait_before(attempt: int, backoff: timedelta) -> float:
    """Seconds before a retry, the first being number 0: doubled each time, and up to half of it by chance."""
    seconds = min(backoff.total_seconds() * 2.0**attempt, _LONGEST)
    return seconds * random.uniform(0.5, 1.0)  # noqa: S311


def retried(
    work: Callable[[], Result],
    *,
    retries: int,
    backoff: timedelta,
    is_passing: Callable[[Exception], bool],
    pause: Callable[[float], None],
    on_retry: Callable[[Exception, float], None],
) -> Result:
    """What `work` gives; tried again while its failures are of a passing kind."""
    for attempt in count():
        try:
            return work()
        except Exception as failure:
            if attempt >= retries or not is_passing(failure):
                raise
            seconds = wait_before(min(attempt, 32), backoff)
            on_retry(failure, seconds)
        pause(seconds)
    raise AssertionError
