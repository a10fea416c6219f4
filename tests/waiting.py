"""Waiting for what another thread, process or server does."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from typing import Any

PATIENCE = 180.0
"""Seconds; long, since machines are busy, and no test is slower for it."""


def until(happens: Callable[[], Any], what: str, process: subprocess.Popen[str] | None = None) -> None:
    """Waits until something has happened, and no longer than `process` lives."""
    end = time.monotonic() + PATIENCE
    while not happens():
        assert process is None or process.poll() is None, f"it ended before {what}: {process.communicate()}"
        assert time.monotonic() < end, f"not within {PATIENCE:.0f} s: {what}"
        time.sleep(0.02)
