"""Named pipes that are there as long as a command runs."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from penstock.errors import InputError, SetupError

_WIDE = 1024 * 1024


@contextmanager
def named_pipe(path: str) -> Iterator[str]:
    """Makes a pipe that only its owner may use, and unlinks it at the end, if it is still that one."""
    try:
        os.mkfifo(path, 0o600)
    except FileExistsError:
        left = _is_pipe(path)
        hint = f"if a process that was killed has left it: rm {path}" if left else "choose another name"
        raise InputError("file-exists", f"{path} is there already", hint=hint) from None
    except OSError as failure:
        raise SetupError("no-pipe", f"cannot make the pipe {path}: {failure.strerror}") from None
    made = os.lstat(path)
    place = os.path.abspath(path)
    try:
        yield path
    finally:
        with suppress(OSError):
            if os.path.samestat(os.lstat(place), made):
                os.unlink(place)


def widen(fd: int) -> None:
    """Lets more wait in a pipe, where the system can."""
    with suppress(ImportError, AttributeError, OSError):
        import fcntl

        fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, _WIDE)


def capacity(fd: int) -> int:
    """Bytes that may wait in a pipe."""
    with suppress(ImportError, AttributeError, OSError):
        import fcntl

        return fcntl.fcntl(fd, fcntl.F_GETPIPE_SZ)
    return _WIDE


def waiting(fd: int) -> int:
    """Bytes in a pipe that nobody has read yet."""
    import array
    import fcntl
    import termios

    count = array.array("i", [0])
    fcntl.ioctl(fd, termios.FIONREAD, count)
    return count[0]


def _is_pipe(path: str) -> bool:
    with suppress(OSError):
        return stat.S_ISFIFO(os.lstat(path).st_mode)
    return False
