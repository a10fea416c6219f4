"""What looks at streams tell of them over time: how much comes, since when nothing does, what stands out.

Nothing here looks, or asks what time it is: `penstock.streams.looking` does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence as Several
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import zip_longest
from typing import Literal

from penstock.errors import PenstockError
from penstock.streams.base import Description
from penstock.streams.message import Message, Sequence
from penstock.streams.meter import NOTHING, Meter, Throughput
from penstock.streams.reading import messages_in

Mark = Literal["bursting", "stale"]
HISTORY = 240
"""Looks of which the rate is kept."""
_HOLD = timedelta(seconds=5)
"""How long a burst is told, so that nobody misses one between two blinks."""
_SAMPLE = 20
_TEXT = 2000


@dataclass(frozen=True)
class Latest:
    """The message that was stored last."""

    timestamp: datetime
    shard: int
    sequence: Sequence
    text: str
    """As much as a line can show."""
    size: int

    @classmethod
    def of(cls, message: Message) -> Latest:
        payload, key = message.payload, message.key or b""
        try:
            text = payload.decode()[:_TEXT]
        except UnicodeDecodeError:
            text = f"{len(payload)} bytes"
        size = len(payload) + len(key) + sum(len(name) + len(value) for name, value in message.headers)
        return cls(message.timestamp, message.shard, message.sequence, text, size)


@dataclass(frozen=True)
class Look:
    """One stream at one time."""

    name: str
    at: datetime
    told: Description | None = None
    latest: Latest | None = None
    failure: PenstockError | None = None


@dataclass(frozen=True)
class Snapshot:
    """The streams of a cluster, or why they cannot be seen."""

    cluster: str
    looks: tuple[Look, ...] = ()
    failure: PenstockError | None = None


@dataclass(frozen=True)
class View:
    """A stream as it is shown."""

    cluster: str
    name: str
    """Empty where a cluster is away, and its streams are not known."""
    told: Description | None = None
    latest: Latest | None = None
    messages: Throughput = NOTHING
    bytes: Throughput | None = None
    """None where the backend tells nothing of sizes."""
    bytes_are_estimated: bool = False
    watched: float = 0.0
    """Seconds; what is told of longer spans is projected."""
    history: tuple[float, ...] = ()
    """Messages in a second, at each look."""
    mark: Mark | None = None
    failure: PenstockError | None = None

    @property
    def key(self) -> tuple[str, str]:
        return self.cluster, self.name

    @property
    def lag(self) -> int | None:
        """Of the group that is furthest behind."""
        return max(self.told.lag.values(), default=None) if self.told is not None else None

    @property
    def producers(self) -> int | None:
        return None if self.told is None or self.told.producers is None else len(self.told.producers)

    @property
    def consumers(self) -> int | None:
        return None if self.told is None or self.told.consumers is None else len(self.told.consumers)

    @property
    def state(self) -> str:
        """The word that stands out: `away`, a mark, or nothing."""
        return "away" if self.failure is not None else self.mark or ""


@dataclass(frozen=True)
class Total:
    """All streams that can be seen."""

    streams: int = 0
    messages: Throughput = NOTHING
    bytes: Throughput | None = None
    bytes_are_estimated: bool = False
    watched: float = 0.0
    history: tuple[float, ...] = ()
    marks: dict[str, int] = field(default_factory=dict)
    """How many streams have each state that stands out."""


class _Watched:
    """One stream, over time."""

    def __init__(self) -> None:
        self._messages, self._bytes = Meter(), Meter()
        self._stored_bytes = 0.0
        self._sizes: deque[int] = deque(maxlen=_SAMPLE)
        self._has_bytes = self._estimated = False
        self._history: deque[float] = deque(maxlen=HISTORY)
        self._told: Description | None = None
        self._latest: Latest | None = None
        self._grew: datetime | None = None
        self._burst: datetime | None = None
        self.failure: PenstockError | None = None

    def look(self, at: datetime, told: Description, latest: Latest | None) -> None:
        before = self._told
        came = 0 if before is None else produced(told) - produced(before)
        if latest is not None and latest != self._latest:
            self._sizes.append(latest.size)
        self._told, self._latest, self.failure = told, latest, None
        self._count_bytes(before, came)
        self._messages.add(at.timestamp(), produced(told))
        self._bytes.add(at.timestamp(), self._stored_bytes)
        if self._messages.watched > 0:
            self._history.append(self._messages.throughput.second)
        if before is None:
            self._grew = at if latest is None else min(latest.timestamp, at)
        elif came > 0:
            self._grew = at
        if self._messages.bursts:
            self._burst = at

    def is_another(self, told: Description) -> bool:
        """Whether a stream was deleted, and this one made under its name: what was stored only grows."""
        return self._told is not None and produced(told) < produced(self._told)

    def view(self, cluster: str, name: str, now: datetime, stale: timedelta) -> View:
        return View(
            cluster,
            name,
            told=self._told,
            latest=self._latest,
            messages=self._messages.throughput,
            bytes=self._bytes.throughput if self._has_bytes else None,
            bytes_are_estimated=self._estimated,
            watched=self._messages.watched,
            history=tuple(self._history),
            mark=None if self.failure is not None else self._mark(now, stale),
            failure=self.failure,
        )

    def _mark(self, now: datetime, stale: timedelta) -> Mark | None:
        if self._burst is not None and now - self._burst <= _HOLD:
            return "bursting"
        had = self._told is not None and produced(self._told) > 0
        return "stale" if had and self._grew is not None and now - self._grew >= stale else None

    def _count_bytes(self, before: Description | None, came: int) -> None:
        """What came, in bytes.

        That is what the backend stores more than before, where it tells that and nothing was removed; else
        as many times the mean size of what is stored, or of the latest messages that were seen.
        """
        told = self._told
        assert told is not None
        mean = _mean(told) or (sum(self._sizes) / len(self._sizes) if self._sizes else None)
        grown = None if before is None else _grown(before, told)
        self._has_bytes = self._has_bytes or mean is not None or grown is not None
        if came:
            self._estimated = grown is None
            self._stored_bytes += grown if grown is not None else came * (mean or 0.0)
        elif before is None:
            self._estimated = not _is_counted(told) or told.size is None


class Board:
    """All streams that are watched. `stale` is how long nothing comes to one that had messages."""

    def __init__(self, stale: timedelta = timedelta(seconds=60)) -> None:
        self._stale = stale
        self._clusters: dict[str, dict[str, _Watched]] = {}
        self._failures: dict[str, PenstockError | None] = {}

    def take(self, snapshot: Snapshot) -> None:
        known = self._clusters.setdefault(snapshot.cluster, {})
        self._failures[snapshot.cluster] = snapshot.failure
        if snapshot.failure is not None:
            for watched in known.values():
                watched.failure = snapshot.failure
            return
        seen: dict[str, _Watched] = {}
        for look in snapshot.looks:
            watched = known.get(look.name) or _Watched()
            if look.told is not None:
                watched = _Watched() if watched.is_another(look.told) else watched
                watched.look(look.at, look.told, look.latest)
            else:
                watched.failure = look.failure
            seen[look.name] = watched
        self._clusters[snapshot.cluster] = seen

    def views(self, now: datetime) -> list[View]:
        """Each stream, in the order of clusters and names; a cluster that was never seen, by its failure."""
        views = []
        for cluster, streams in self._clusters.items():
            failure = self._failures[cluster]
            if not streams and failure is not None:
                views.append(View(cluster, "", failure=failure))
            views += [s.view(cluster, name, now, self._stale) for name, s in sorted(streams.items())]
        return views


def total(views: Several[View]) -> Total:
    there = [view for view in views if view.failure is None]
    rates = [view.bytes for view in there if view.bytes is not None]
    histories = [reversed(view.history) for view in there]
    summed = [sum(at_once) for at_once in zip_longest(*histories, fillvalue=0.0)]
    states = [view.state for view in views if view.state]
    return Total(
        streams=sum(view.name != "" for view in views),
        messages=sum((view.messages for view in there), NOTHING),
        bytes=sum(rates, NOTHING) if rates else None,
        bytes_are_estimated=any(view.bytes_are_estimated for view in there if view.bytes is not None),
        watched=max((view.watched for view in there), default=0.0),
        history=tuple(reversed(summed)),
        marks={state: states.count(state) for state in sorted(set(states))},
    )


def produced(told: Description) -> int:
    return sum(shard.produced for shard in told.shards)


def _is_counted(told: Description) -> bool:
    """Whether sequences are numbers: then the backend knows what it stores to the byte."""
    return all(isinstance(shard.last, int) for shard in told.shards if shard.last is not None)


def _mean(told: Description) -> float | None:
    stored = messages_in(told.shards)
    return told.size / stored if told.size is not None and stored else None


def _grown(before: Description, told: Description) -> int | None:
    """Bytes that are stored more than before; None where that is not told, or some were removed meanwhile."""
    if before.size is None or told.size is None or not _is_counted(told):
        return None
    firsts = {shard.number: shard.first for shard in told.shards}
    kept = all(s.first is None or firsts.get(s.number) == s.first for s in before.shards)
    return told.size - before.size if kept and told.size > before.size else None
