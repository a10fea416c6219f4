"""From where to where a stream is read: to a time, to what is there now, or for ever."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timezone
from types import TracebackType

from penstock.errors import InputError, PenstockError
from penstock.streams.base import AWAY, BATCH, Place, Shard, Start, Streamer
from penstock.streams.message import Message, in_utc, order

_WAIT = 0.2
_PATIENCE = 60.0
"""Seconds for which nobody may tell where a stream ends."""
_ID = re.compile(r"\d+([-:]\d+)+")
_MEANT_AS_TIME = re.compile(r"\d{4}-\d\d(-\d\d)?|\d\d?:\d\d(:\d\d)?")
_STARTS = "expected earliest, latest, a time such as 2026-01-31T12:00, or a sequence"


def parse_time(text: str) -> datetime:
    """A time, in UTC unless it says otherwise."""
    return in_utc(datetime.fromisoformat(re.sub("[zZ]$", "+00:00", text.strip())))


def parse_start(text: str) -> Start:
    word = text.strip().lower()
    if word == "earliest" or word == "latest":
        return word
    if word.isdecimal():
        return int(word)
    try:
        return parse_time(word)
    except ValueError:
        if _ID.fullmatch(word) and not _MEANT_AS_TIME.fullmatch(word):
            return word
        raise InputError("bad-start", f"'{text}' is no place in a stream", hint=_STARTS) from None


def parse_until(text: str) -> datetime:
    try:
        return datetime.now(timezone.utc) if text.strip().lower() == "now" else parse_time(text)
    except ValueError:
        raise InputError("bad-until", f"'{text}' is no time", hint="now, or 2026-01-31T12:00") from None


class Reading:
    """The messages of a URI's streams, in batches, up to the end that was asked for.

    Without `until` and `follow`, the end is what is there at the beginning. What a group receives it has
    received, so it is given more than that rather than less; it has come to the end when all of it up to
    there is processed, by whomever. A server that is away is waited for, as long as its consumer does: no
    reading ends while something is still to come.
    """

    def __init__(
        self,
        streamer: Streamer,
        *,
        start: Start | None = None,
        until: datetime | None = None,
        follow: bool = False,
        group: str | None = None,
    ) -> None:
        self._streamer, self._group, self._follow = streamer, group, follow
        self._start = in_utc(start) if isinstance(start, datetime) else start
        self._until = None if until is None else in_utc(until)
        self._streams = streamer.located()
        if not self._streams:
            raise InputError("no-stream", f"'{streamer.uri}' names no stream", hint="end it with /name")
        self.total: int | None = None
        """How many messages there are to read, as far as it is known."""
        self._last: dict[tuple[str, int], tuple[int, ...]] = {}
        """The last message of each shard, as soon as the end has come."""
        self._missing: dict[tuple[str, int], Place] | None = None
        """The last messages of the shards that were not read so far; some may never come, since a system
        counts what it does not give out, as Kafka does with the ends of transactions."""
        self._away: float | None = None
        """Since when nobody tells where the end is."""
        self._is_one = False
        # First, so that what comes meanwhile is after the end, not before the start.
        self._find_ends(begins=True)
        self.consumer = streamer.consumer(*self._streams, mode="repeat", group=group, start=start)

    def batches(
        self, stopped: Callable[[], bool], most: Callable[[], int] = lambda: BATCH
    ) -> Iterator[list[Message]]:
        """Ends when all was read, when `stopped`, or when `most` is 0. Batches may be empty."""
        looked = time.monotonic()
        while not stopped() and (wanted := most()) > 0:
            if self._missing is None:
                self._try_ends()
            if self._missing is not None and not self._missing:
                return
            got = self.consumer.batch(min(BATCH, wanted), _WAIT)
            if not got and self.consumer.ended:
                return
            yield self._kept(got)
            if self._missing and (not got or time.monotonic() - looked >= _WAIT):
                self._look(commit=not got)
                looked = time.monotonic()

    @property
    def in_group(self) -> bool:
        return self._group is not None

    def commit(self) -> None:
        """What was received was processed."""
        self.consumer.commit()

    def close(self) -> None:
        self.consumer.close()

    def __enter__(self) -> Reading:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _try_ends(self) -> None:
        try:
            self._find_ends(begins=False)
        except PenstockError as failure:
            now = time.monotonic()
            self._away = self._away or now
            if failure.code not in AWAY or now - self._away > _PATIENCE:
                raise
        else:
            self._away = None

    def _find_ends(self, *, begins: bool) -> None:
        """As soon as the end has come, which messages are the last."""
        if self._until is None and self._follow:
            return
        if self._until is not None and datetime.now(timezone.utc) < self._until:
            return
        if not self._streamer.capabilities.admin:
            raise InputError(
                "no-end", f"{self._streamer.schemes[0]}:// does not tell where it ends", hint="--follow"
            )
        with self._streamer.admin() as admin:
            told = {stream: admin.shards(stream) for stream in self._streams}
            newest = (
                [admin.latest(stream) for stream in self._streams]
                if isinstance(self._start, datetime)
                else []
            )
        self._missing = {
            (stream, shard.number): Place(stream, shard.number, shard.last)
            for stream, shards in told.items()
            for shard in shards
            if shard.last is not None
        }
        every = [shard for shards in told.values() for shard in shards]
        self._last = {name: order(place.sequence) for name, place in self._missing.items()}
        self._is_one = len(self._last) == len(every) == 1
        self.total = messages_in(every)
        if self._group is None:
            self._leave_out([message for message in newest if message is not None], begins=begins)

    def _leave_out(self, newest: list[Message], *, begins: bool) -> None:
        """Shards that end before the start have nothing to wait for."""
        start, ends = self._start, self._missing or {}
        if start == "latest":
            self._missing = {} if begins else ends
        elif isinstance(start, datetime):
            if all(message.timestamp < start for message in newest):
                self._missing = {}
        elif start is not None and start != "earliest":
            self._missing = {name: end for name, end in ends.items() if self._last[name] >= order(start)}

    def _kept(self, got: list[Message]) -> list[Message]:
        if self._group is not None or not got:
            return got
        if self._missing is None:
            until = self._until
            return got if until is None else [message for message in got if message.timestamp <= until]
        if self._is_one and self._until is None:
            # Of one shard, in order, only the last message has to be looked at.
            ((name, end),) = self._last.items()
            here = order(got[-1].sequence)
            if here <= end:
                if here == end:
                    self._missing.clear()
                return got
        kept = []
        for message in got:
            name, here = (message.stream, message.shard), order(message.sequence)
            last = self._last.get(name)
            if last is not None and here >= last:
                self._missing.pop(name, None)
            beyond = (
                last is None or here > last or (self._until is not None and message.timestamp > self._until)
            )
            if not beyond:
                kept.append(message)
        return kept

    def _look(self, *, commit: bool) -> None:
        """Asks which shards are read, of those whose last message has not come."""
        if commit and self._group is not None:
            try:
                self.consumer.commit()  # nothing is given out that was not followed by asking for more
            except PenstockError as failure:
                if failure.code != "not-committed":  # which comes again, here or to others of the group
                    raise
        ends = self._missing or {}
        self._missing = {name: end for name, end in ends.items() if not self.consumer.reached(end)}


def messages_in(shards: Iterable[Shard]) -> int | None:
    """How many messages are stored; None where sequences do not tell."""
    total = 0
    for shard in shards:
        if isinstance(shard.first, int) and isinstance(shard.last, int):
            total += shard.last - shard.first + 1
        elif shard.last is not None:
            return None
    return total
