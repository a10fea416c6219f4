"""One writer at a time: a lock on the table's folder, which the system lets go when a process ends."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from penstock.errors import RunError

BUSY = "table-busy"
_PATIENCE, _PAUSE = 30.0, 0.05


@contextmanager
def only_writer(path: str) -> Iterator[None]:
    """Makes the folder if need be, and holds it; raises `table-busy` when another writer does for long.

    A folder that is still empty in the end is removed.
    """
    lock = _locked(path, time.monotonic() + _PATIENCE)
    try:
        yield
    finally:
        with suppress(OSError):
            os.rmdir(path)
        os.close(lock)


def busy(path: str) -> RunError:
    return RunError(BUSY, f"another process writes to {path}", hint="wait for it, or raise `retries`")


def _locked(path: str, deadline: float) -> int:
    while True:
        os.makedirs(path, exist_ok=True)
        lock = os.open(path, os.O_RDONLY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The one who held it may have removed the folder.
            if os.path.isdir(path) and os.path.samestat(os.fstat(lock), os.stat(path)):
                return lock
        except BlockingIOError:
            if time.monotonic() > deadline:
                os.close(lock)
                raise busy(path) from None
            time.sleep(_PAUSE)
        except BaseException:
            os.close(lock)
            raise
        os.close(lock)
