"""Backends that are broken, each in one way, for trying the conformance suite itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from penstock.streams import Admin, Consumer, Message, Producer, Receipt, Retention, Streamer
from penstock.streams.base import Outgoing, Start
from penstock.streams.file.admin import FileAdmin
from penstock.streams.file.consumer import FileConsumer
from penstock.streams.file.producer import FileProducer
from penstock.streams.file.streamer import FileStreamer
from penstock.uri import Uri

from .subject import Subject


class BrokenSubject(Subject):
    fixture = "tmp_path"
    required = frozenset({"replay"})
    producing: type[FileProducer] = FileProducer
    consuming: type[FileConsumer] = FileConsumer
    looking: type[FileAdmin] = FileAdmin

    def streamer(self) -> Streamer:
        producing, consuming, looking = self.producing, self.consuming, self.looking

        class Broken(FileStreamer):
            def producer(self, *names: Any, **options: Any) -> Producer:
                made = super().producer(*names, **options)
                made.__class__ = producing
                return made

            def consumer(self, *names: Any, **options: Any) -> Consumer:
                if options["mode"] == "exactly_once" and "positions" not in options:
                    options["mode"] = "repeat"  # as if there were transactions
                made = super().consumer(*names, **options)
                made.__class__ = consuming
                return made

            def admin(self) -> Admin:
                made = super().admin()
                made.__class__ = looking
                return made

        return Broken(Uri.parse(f"file://{self.place}"))


class Dropping(FileProducer):
    def _put(self, outgoing: Outgoing) -> Receipt:
        if outgoing.payload == b"message 17":
            outgoing = outgoing._replace(payload=b"message 16")
        return super()._put(outgoing)


class Changing(FileProducer):
    """Stores every message with something else beside its payload than was said."""

    changes: dict[str, Callable[[Any], Any]]

    def _put(self, outgoing: Outgoing) -> Receipt:
        changed = {name: change(getattr(outgoing, name)) for name, change in self.changes.items()}
        return super()._put(outgoing._replace(**changed))


class Keyless(Changing):
    changes = {"key": lambda key: key and key[:1]}


class OneOfEach(Changing):
    """Keeps the last of several headers with one name."""

    changes = {"headers": dict}


class Timeless(Changing):
    changes = {"timestamp": lambda time: None}


class Unknowing(Changing):
    changes = {"id": lambda id: None}


class Careless(FileAdmin):
    def create(self, stream: str, *, shards: int = 1, retention: Retention | None = None) -> None:
        super().create(stream, shards=shards)


class Doubling(FileConsumer):
    def _fetch(self, most: int, wait: float) -> list[Message]:
        got = super()._fetch(most, wait)
        return got + got[-1:]


class Reordering(FileConsumer):
    def _fetch(self, most: int, wait: float) -> list[Message]:
        return super()._fetch(most, wait)[::-1]


class Staying(FileConsumer):
    def _move(self, to: Start, stream: str | None = None, shard: int | None = None) -> None:
        """Goes nowhere."""


class Forgetting(FileConsumer):
    def _commit(self) -> None:
        """Forgets what was processed."""


class Hasty(FileConsumer):
    """Takes what it has fetched for processed."""

    def _fetch(self, most: int, wait: float) -> list[Message]:
        got = super()._fetch(most, wait)
        self._processed(got)
        super()._commit()
        return got


class Greedy(FileConsumer):
    """Reads shards that others hold."""

    def _share(self) -> None:
        for member in self._members.values():
            for shard in range(member.stream.shards):
                if (member.stream.name, shard) not in self._readers:
                    self._begin(member.stream, shard)


class Pretending(FileProducer):
    """Stores what is sent in a transaction at once."""

    @contextmanager
    def transaction(self, consumer: Consumer | None = None) -> Iterator[None]:
        yield
        if consumer is not None:
            consumer.commit()


class Splitting(FileProducer):
    """Stores the messages of a transaction at its end, and no positions."""

    _held: list[Outgoing] | None = None

    def _put(self, outgoing: Outgoing) -> Receipt:
        if self._held is None:
            return super()._put(outgoing)
        self._held.append(outgoing)
        return Receipt(self)

    @contextmanager
    def transaction(self, consumer: Consumer | None = None) -> Iterator[None]:
        self._held = held = []
        try:
            yield
        finally:
            self._held = None
        for outgoing in held:
            self._put(outgoing)


class DropsMessages(BrokenSubject):
    producing = Dropping


class CutsKeys(BrokenSubject):
    producing = Keyless


class DropsHeaders(BrokenSubject):
    producing = OneOfEach


class KeepsNoTimes(BrokenSubject):
    producing = Timeless


class KnowsNoIds(BrokenSubject):
    producing = Unknowing


class KeepsNoRetention(BrokenSubject):
    looking = Careless


class DoublesMessages(BrokenSubject):
    consuming = Doubling


class MixesMessages(BrokenSubject):
    consuming = Reordering


class NeverMoves(BrokenSubject):
    consuming = Staying


class ForgetsCommits(BrokenSubject):
    consuming = Forgetting


class CommitsTooEarly(BrokenSubject):
    consuming = Hasty


class SharesNothing(BrokenSubject):
    consuming = Greedy


class StoresAtOnce(BrokenSubject):
    producing = Pretending


class ForgetsPositions(BrokenSubject):
    producing = Splitting
