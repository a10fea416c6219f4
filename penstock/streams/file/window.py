"""Which ids a stream has seen of late, and where their messages stand."""

from __future__ import annotations

from collections import deque

from penstock.streams.file.block import Batch
from penstock.streams.file.log import ShardLog


class Window:
    """The ids of the last messages of each shard, and where they stand."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._places: dict[bytes, tuple[Batch, int]] = {}
        self._order: dict[int, deque[tuple[int, bytes]]] = {}

    def load(self, shard: int, log: ShardLog) -> None:
        stored = Batch(shard, 0)
        stored.settle()
        for sequence, id in log.ids(self._size):
            self._put(id, stored, sequence)

    def add(self, id: bytes, batch: Batch, number: int) -> None:
        self._put(id, batch, number)
        order = self._order[batch.shard]
        first = batch.base + number + 1 - self._size
        while order and order[0][0] < first:
            sequence, old = order.popleft()
            found = self._places.get(old)
            if found is not None and found[0].base + found[1] == sequence and found[0].shard == batch.shard:
                del self._places[old]

    def find(self, id: bytes, ends: list[int]) -> tuple[Batch, int] | None:
        found = self._places.get(id)
        if found is None or found[0].base + found[1] < ends[found[0].shard] - self._size:
            return None
        return found

    def _put(self, id: bytes, batch: Batch, number: int) -> None:
        self._places[id] = (batch, number)
        self._order.setdefault(batch.shard, deque()).append((batch.base + number, id))
