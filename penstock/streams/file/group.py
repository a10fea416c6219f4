"""Groups: who is online, who reads which shard, and how far the group is.

All of it stands in files of the stream's folder. What belongs to a process is held by a lock on a file, which
the system takes away when the process dies, however it does.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

from penstock.errors import DataError
from penstock.streams.file.folder import StreamFolder, sync
from penstock.streams.file.lock import unlock


class Presence:
    """A file that is locked while its owner lives."""

    def __init__(self, folder: Path, about: dict[str, Any]) -> None:
        self._fd = -1
        folder.mkdir(parents=True, exist_ok=True)
        self.name = secrets.token_hex(8)
        self._process = os.getpid()
        self._path = folder / self.name
        while True:
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
            fcntl.flock(self._fd, fcntl.LOCK_EX)
            if os.fstat(self._fd).st_nlink:
                break
            os.close(self._fd)  # somebody found it before it was locked, and took it for a dead one
        os.pwrite(self._fd, json.dumps(about).encode(), 0)

    def close(self) -> None:
        if self._fd < 0:
            return
        if self._process == os.getpid():
            with suppress(FileNotFoundError):
                self._path.unlink()
            unlock(self._fd)
        else:  # a copy in a child, which owns nothing
            os.close(self._fd)
        self._fd = -1

    def __del__(self) -> None:
        self.close()


def present(folder: Path) -> dict[str, dict[str, Any]]:
    """Those who are online; what the dead left is removed."""
    found: dict[str, dict[str, Any]] = {}
    for name in sorted(os.listdir(folder)) if folder.is_dir() else []:
        try:
            fd = os.open(folder / name, os.O_RDONLY)
        except FileNotFoundError:
            continue
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            with suppress(OSError):  # another may do it, or may it
                (folder / name).unlink()
        except BlockingIOError:
            found[name] = _parsed(os.pread(fd, 1000, 0))
        finally:
            os.close(fd)
    return found


def _parsed(text: bytes) -> dict[str, Any]:
    try:
        told = json.loads(text)
    except ValueError:  # it is being written
        return {}
    return told if isinstance(told, dict) else {}


class Membership:
    """One consumer's part in a group, for one stream."""

    def __init__(self, stream: StreamFolder, group: str, *, fsync: bool) -> None:
        self.stream = stream
        self._fsync = fsync
        self._folder = stream.group(group)
        self._members = self._folder / "members"
        self._process = os.getpid()
        self._held: dict[int, int] = {}
        self._presence = Presence(self._members, {"pid": os.getpid()})
        if fsync:
            for folder in (self._folder, self._folder.parent, stream.path):
                sync(folder)

    @property
    def held(self) -> set[int]:
        """The shards that it reads."""
        return set(self._held)

    def fair(self) -> set[int]:
        """The shards that it should read, as all members find when they look at who is there."""
        members = sorted({*present(self._members), self._presence.name})
        mine = members.index(self._presence.name)
        # Streams of one shard begin with different members.
        offset = zlib.crc32(self.stream.name.encode())
        return {n for n in range(self.stream.shards) if (n + offset) % len(members) == mine}

    def take(self, shard: int) -> bool:
        """Tries to get a shard; its holder may not have given it back yet."""
        if shard in self._held:
            return True
        fd = os.open(_lease(self._folder, shard), os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return False
        os.pwrite(fd, self._presence.name.encode(), 0)
        self._held[shard] = fd
        return True

    def give_back(self, shard: int) -> None:
        fd = self._held.pop(shard)
        if self._process == os.getpid():
            unlock(fd)
        else:
            os.close(fd)

    def committed(self, shard: int) -> int | None:
        return committed(self._folder, shard)

    def commit(self, shard: int, position: int) -> None:
        """Only for shards that are held, so that nobody else writes the file."""
        path = _position(self._folder, shard)
        fresh = path.with_suffix(".new")
        with fresh.open("w", encoding="ascii") as file:
            file.write(f"{position}\n")
            if self._fsync:
                file.flush()
                os.fsync(file.fileno())
        fresh.replace(path)
        if self._fsync:
            sync(self._folder)

    def close(self) -> None:
        for shard in list(self._held):
            self.give_back(shard)
        self._presence.close()

    def __del__(self) -> None:
        # Else a member that nobody closed would hold its shards as long as the process lives.
        if hasattr(self, "_presence"):
            self.close()


def committed(group: Path, shard: int) -> int | None:
    """The sequence of the first message that the group has not processed; None when it never committed."""
    path = _position(group, shard)
    try:
        return int(path.read_text(encoding="ascii"))
    except FileNotFoundError:
        return None
    except ValueError:
        raise DataError(
            "damaged-position", f"{path} is no position", hint="without the file, the group begins anew"
        ) from None


def holders(group: Path, shards: int) -> dict[str, list[int]]:
    """The members that hold shards, or held them last."""
    found: dict[str, list[int]] = {}
    for shard in range(shards):
        with suppress(FileNotFoundError):
            found.setdefault(_lease(group, shard).read_text(encoding="ascii"), []).append(shard)
    return found


def members(group: Path) -> dict[str, dict[str, Any]]:
    return present(group / "members")


def _lease(group: Path, shard: int) -> Path:
    return group / f"{shard}.lease"


def _position(group: Path, shard: int) -> Path:
    return group / f"{shard}.position"
