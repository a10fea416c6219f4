"""Where Penstock keeps what it fetched or made and can make again."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.errors import SetupError


def cache_folder(name: str) -> Path:
    """`~/.cache/penstock/<name>`, or `$PENSTOCK_CACHE/<name>`; made when it is not there."""
    root = os.environ.get("PENSTOCK_CACHE")
    folder = (Path(root).expanduser() if root else Path.home() / ".cache" / "penstock") / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as failure:
        raise SetupError(
            "no-cache",
            f"cannot make the cache folder {folder}: {failure.strerror}",
            hint="set PENSTOCK_CACHE to a folder that can be written",
        ) from None
    return folder.absolute()


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """While it lasts, no other process holds this folder; the system lets it go when a process ends."""
    if os.name != "posix":
        yield
        return
    import fcntl

    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
