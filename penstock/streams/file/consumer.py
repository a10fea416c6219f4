"""Receives from streams in a folder."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import cast

from penstock.errors import InputError, PenstockError, RunError
from penstock.streams.base import Consumer, Place, Reading, Start
from penstock.streams.file.block import Block, FileMessage
from penstock.streams.file.folder import StreamFolder
from penstock.streams.file.group import Membership, Presence
from penstock.streams.file.reader import ShardReader
from penstock.streams.message import Message
from penstock.streams.pace import Pace

_SHORTEST, _LONGEST = 0.002, 0.02
"""Seconds between two looks at files that may grow."""
_SHARE_EVERY = 0.3
_COMMIT_EVERY = 0.1
_MOST = 1000
"""Messages in a batch. Those of larger ones live long enough for Python's garbage collector to look through
all that the program holds, again and again."""


class FileConsumer(Consumer):
    """In a group, shards change hands between two batches, so that what was given out is committed before; a
    batch is made small where processing is slow."""

    def __init__(self, streams: list[StreamFolder], reading: Reading, *, fsync: bool) -> None:
        super().__init__()
        group = reading.group
        self._streams = {stream.name: stream for stream in streams}
        self._start = reading.begin
        self._skips = reading.start == "earliest"
        self._positions = reading.positions
        self._commits = reading.mode == "repeat" and group is not None
        self._readers: dict[tuple[str, int], ShardReader] = {}
        self._turn = 0
        self._done: dict[tuple[str, int], int] = {}
        """Positions that are not committed yet."""
        self._committed = self._shared = 0.0
        self._pace = Pace(_SHARE_EVERY, _MOST)
        self._alone = group is None
        """Whether the shards are chosen, and not shared."""
        self._members: dict[str, Membership] = {}
        self._presences: list[Presence] = []
        self._closed = False
        try:
            if group is not None:
                self._members = {s.name: Membership(s, group, fsync=fsync) for s in streams}
                self._share()
            else:
                for stream in streams:
                    for shard in range(stream.shards):
                        self._begin(stream, shard)
                # Last, so that who sees this reader and then sends is heard.
                with suppress(OSError):  # reading needs no right to write
                    about = {"pid": os.getpid()}
                    self._presences = [Presence(s.path / "readers", about) for s in streams]
        except BaseException:
            self._close()
            raise

    def _fetch(self, most: int, wait: float) -> list[Message]:
        if self._closed:
            raise RunError("closed", "the consumer is closed")
        deadline = time.monotonic() + wait
        pause = _SHORTEST
        most = min(most, _MOST if self._alone else self._pace.most())
        while True:
            if not self._alone and time.monotonic() - self._shared >= _SHARE_EVERY:
                self._share()
            got = self._read(most)
            left = deadline - time.monotonic()
            if got or left <= 0:
                self._pace.gave(len(got))
                return got
            time.sleep(min(pause, left))
            pause = min(pause * 1.5, _LONGEST)

    def _read(self, most: int) -> list[Message]:
        readers = list(self._readers.values())
        if not readers:
            return []
        got: list[Message] = []
        each = -(-most // len(readers))
        self._turn = (self._turn + 1) % len(readers)
        try:
            for reader in readers[self._turn :] + readers[: self._turn]:
                if len(got) < most:
                    got += reader.read(min(each, most - len(got)))
        except PenstockError:
            if not got:  # else it comes next time, after what was read before
                raise
        return got

    def _begin(self, stream: StreamFolder, shard: int) -> None:
        """Reads a shard from where this reader, or the group, was."""
        reader = ShardReader(stream, shard, skips=self._skips)
        kept = None if self._positions is None else self._positions.kept(stream.name).get(shard)
        member = self._members.get(stream.name)
        committed = member.committed(shard) if member is not None and self._commits else None
        if kept is not None:
            reader.move(int(kept) + 1)
        elif committed is not None:
            reader.move(committed)
        else:
            reader.move(self._start)
            if member is not None and self._commits:
                # Whoever gets the shard next begins at the same message, not at the latest of that time.
                member.commit(shard, reader.position)
        self._readers[stream.name, shard] = reader

    def _share(self) -> None:
        """Gives back the shards that are others' by now, and takes those that are due."""
        self._shared = time.monotonic()
        fair = {name: member.fair() for name, member in self._members.items()}
        for name, member in self._members.items():
            for shard in member.held - fair[name]:
                self._commit()
                self._readers.pop((name, shard)).close()
                member.give_back(shard)
        for name, member in self._members.items():
            for shard in sorted(fair[name] - member.held):
                if member.take(shard):
                    self._begin(member.stream, shard)

    def _processed(self, messages: list[Message]) -> None:
        if not self._commits:
            return
        last: dict[Block, FileMessage] = {}
        for message in cast("list[FileMessage]", messages):
            last[message._block] = message
        for block, message in last.items():
            self._done[block.stream, block.shard] = message.sequence + 1
        if time.monotonic() - self._committed > _COMMIT_EVERY:
            self._commit()

    def _commit(self) -> None:
        for (stream, shard), position in self._done.items():
            member = self._members[stream]
            if shard in member.held:
                member.commit(shard, position)
        self._done.clear()
        self._committed = time.monotonic()

    def _reached(self, place: Place) -> bool:
        stream, shard, last = place
        if self._commits:
            position = self._members[stream].committed(shard)
        else:
            reader = self._readers.get((stream, shard))
            position = None if reader is None else reader.position
        return position is not None and position > int(last)

    def _move(self, to: Start, stream: str | None = None, shard: int | None = None) -> None:
        if shard is not None:
            self._keep_only(self._named(stream), shard)
        for place, reader in self._readers.items():
            if stream is None or place[0] == stream:
                reader.move(to)
                if self._commits:
                    self._done[place] = reader.position

    def _named(self, stream: str | None) -> StreamFolder:
        if stream is None and len(self._streams) > 1:
            raise InputError("which-stream", "several streams are read", hint="name the one: stream=")
        name = stream or next(iter(self._streams))
        if name not in self._streams:
            raise InputError("which-stream", f"'{name}' is not among the streams that are read")
        return self._streams[name]

    def _keep_only(self, stream: StreamFolder, shard: int) -> None:
        if not 0 <= shard < stream.shards:
            raise InputError("missing-shard", f"'{stream.name}' has the shards 0 to {stream.shards - 1}")
        member = self._members.get(stream.name)
        if member is not None and not member.take(shard):
            raise RunError("shard-busy", f"shard {shard} of '{stream.name}' is read by another of the group")
        self._alone = True
        for place in [p for p in self._readers if p != (stream.name, shard)]:
            self._readers.pop(place).close()
            if place[0] in self._members:
                self._members[place[0]].give_back(place[1])
        if (stream.name, shard) not in self._readers:
            self._readers[stream.name, shard] = ShardReader(stream, shard, skips=self._skips)

    def _close(self) -> None:
        self._closed = True
        for reader in self._readers.values():
            reader.close()
        self._readers.clear()
        for member in self._members.values():
            member.close()
        for presence in self._presences:
            presence.close()
        self._presences.clear()
        self._members.clear()
        self._done.clear()
