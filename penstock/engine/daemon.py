"""Spark's daemon for Python workers on this machine, with all loaded that our workers use.

Workers are forked from it: what it loads is loaded once, and its memory is shared.
"""

from __future__ import annotations

import os
from typing import Any

from pyspark import daemon

from penstock.formats.lines import tasks

_work = daemon.worker_main


def serve(requests: Any, answers: Any) -> None:
    """A worker's life. When Spark has hung up there is nobody to answer, and nothing wrong."""
    try:
        _work(requests, answers)
    finally:
        try:
            answers.flush()
        except BrokenPipeError:
            os._exit(0)


if __name__ == "__main__":
    tasks.preload()
    daemon.worker_main = serve
    daemon.manager()  # type: ignore[no-untyped-call]
