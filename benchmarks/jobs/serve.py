"""How a job is called: once, by arguments, or again and again, by lines of stdin."""

from __future__ import annotations

import sys
from collections.abc import Callable


def serve(run: Callable[..., object]) -> None:
    if len(sys.argv) > 1:
        run(*sys.argv[1:])
        return
    print("ready", flush=True)
    for line in sys.stdin:
        run(*line.split())
        print("done", flush=True)
