"""The right to write a stream: one process has it at a time, and the system takes it away when that dies."""

from __future__ import annotations

import fcntl
import json
import os
import time

from penstock.errors import SetupError
from penstock.streams.file.folder import StreamFolder, missing, unreachable

_TRIES, _BETWEEN = 5, 0.02


def lock(folder: StreamFolder) -> tuple[int, int]:
    """Takes the right to write: what holds it while it is open, and the writer's number."""
    path = folder.path / "writer.lock"
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except FileNotFoundError:
        raise missing(folder.path.parent, folder.name) from None
    except OSError as failure:
        raise unreachable(path, failure) from None
    for _ in range(_TRIES):
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            time.sleep(_BETWEEN)  # somebody may only have looked whether it is held
    else:
        holder = _number(fd, "pid")
        os.close(fd)
        raise busy(folder, holder)
    if not path.exists() or not os.path.samestat(path.stat(), os.fstat(fd)):
        os.close(fd)  # the stream was deleted by whoever had the lock
        raise missing(folder.path.parent, folder.name)
    return fd, 1 + _number(fd, "fence")


def busy(folder: StreamFolder, holder: int) -> SetupError:
    return SetupError(
        "stream-busy",
        f"'{folder.name}' is written by process {holder or 'unknown'}",
        hint="one process writes a stream: end that one, or send through it",
    )


def tell(fd: int, fence: int) -> None:
    # Written over in place: a process that dies now leaves the old text, or the new one, or one that tells
    # nothing, and the blocks tell the number then.
    os.pwrite(fd, json.dumps({"fence": fence, "pid": os.getpid()}).ljust(80).encode(), 0)


def unlock(fd: int) -> None:
    """Gives a lock back, also where a child of this process has a copy of what holds it."""
    fcntl.flock(fd, fcntl.LOCK_UN)
    os.close(fd)


def writing(folder: StreamFolder) -> int | None:
    """The process that writes, 0 where it is not told; None when there is none."""
    try:
        fd = os.open(folder.path / "writer.lock", os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _number(fd, "pid")
    finally:
        os.close(fd)
    return None


def _number(fd: int, name: str) -> int:
    try:
        return int(json.loads(os.pread(fd, 200, 0))[name])
    except (ValueError, KeyError, TypeError):
        return 0
