"""Looks after the streams of a folder."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from penstock.streams.base import Admin, Client, Description, Retention, Shard
from penstock.streams.file import group as groups
from penstock.streams.file.folder import StreamFolder, streams_in
from penstock.streams.file.lock import lock, unlock, writing
from penstock.streams.file.reader import ShardReader
from penstock.streams.message import Message


class FileAdmin(Admin):
    def __init__(self, cluster: Path, *, fsync: bool) -> None:
        self._cluster = cluster
        self._fsync = fsync

    def streams(self) -> list[str]:
        return streams_in(self._cluster)

    def create(self, stream: str, *, shards: int = 1, retention: Retention | None = None) -> None:
        folder = StreamFolder.create(self._cluster, stream, shards, retention or Retention())
        if self._fsync:
            folder.sync()

    def describe(self, stream: str) -> Description:
        while True:
            folder = StreamFolder.open(self._cluster, stream)
            try:
                return self._described(folder)
            except FileNotFoundError:
                # Deleted meanwhile, as opening it tells; or there is another one of its name.
                if StreamFolder.open(self._cluster, stream) == folder:
                    raise

    def _described(self, folder: StreamFolder) -> Description:
        bounds = {shard: _bounds(folder, shard) for shard in range(folder.shards)}
        behind = {name: _lag(folder, name, bounds) for name in folder.groups()}
        return Description(
            name=folder.name,
            shards=tuple(
                Shard(shard, first if end > first else None, end - 1 if end > first else None, end)
                for shard, (first, end) in bounds.items()
            ),
            size=sum(_size(folder.shard(shard)) for shard in bounds),
            retention=folder.retention,
            producers=_producers(folder),
            consumers=tuple(_consumers(folder, behind)),
            lag={name: sum(shards.values()) for name, shards in behind.items() if shards is not None},
        )

    def latest(self, stream: str) -> Message | None:
        folder = StreamFolder.open(self._cluster, stream)
        last = []
        for shard in range(folder.shards):
            first, end = _bounds(folder, shard)
            reader = ShardReader(folder, shard, skips=True)
            try:
                if end > first:
                    reader.move(end - 1)
                    last += reader.read(1)
            finally:
                reader.close()
        return max(last, key=lambda message: message.timestamp, default=None)

    def delete(self, stream: str) -> None:
        folder = StreamFolder.open(self._cluster, stream)
        fd, _ = lock(folder)
        try:
            folder.remove()
        finally:
            unlock(fd)

    def close(self) -> None:
        """Nothing is held."""


def _bounds(folder: StreamFolder, shard: int) -> tuple[int, int]:
    """The first sequence, and the one after the last."""
    reader = ShardReader(folder, shard)
    try:
        return reader.first(), reader.end()
    finally:
        reader.close()


def _size(shard: Path) -> int:
    size = 0
    for entry in os.scandir(shard):
        with suppress(FileNotFoundError):  # retention removed it just now
            size += entry.stat().st_size
    return size


def _lag(folder: StreamFolder, group: str, bounds: dict[int, tuple[int, int]]) -> dict[int, int] | None:
    """How much of each shard the group has still to read: all where it has committed nothing yet.

    None for one that has committed nothing at all: a position store may tell, or nobody yet.
    """
    committed = {shard: groups.committed(folder.group(group), shard) for shard in bounds}
    if all(position is None for position in committed.values()):
        return None
    return {shard: max(0, end - max(first, committed[shard] or 0)) for shard, (first, end) in bounds.items()}


def _producers(folder: StreamFolder) -> tuple[Client, ...]:
    process = writing(folder)
    return () if process is None else (Client(f"process {process}"),)


def _consumers(folder: StreamFolder, lag: dict[str, dict[int, int] | None]) -> list[Client]:
    found = [
        Client(f"process {about.get('pid')}", shards=tuple(range(folder.shards)))
        for about in groups.present(folder.path / "readers").values()
    ]
    for group, behind in lag.items():
        path = folder.group(group)
        held = groups.holders(path, folder.shards)
        for name, about in groups.members(path).items():
            shards = tuple(held.get(name, ()))
            left = None if behind is None else sum(behind[shard] for shard in shards)
            found.append(Client(f"process {about.get('pid')}", group, shards, left))
    return found
