"""Producers, consumers and crashes in any order, against a model of a list of messages for each shard."""

from __future__ import annotations

import os
import tempfile
from datetime import datetime, timedelta, timezone
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.streams import Consumer, Message
from penstock.streams.file import log
from penstock.streams.file.group import committed
from penstock.streams.file.streamer import FileStreamer

from .files import connect, logs, there

SHARDS = 2
EPOCH = datetime(2024, 1, 1, tzinfo=timezone.utc)
minutes = st.integers(0, 50)
sequences = st.integers(0, 40)


class Streams(RuleBasedStateMachine):
    """What is stored is a list of (text, minute) for each shard; readers have a position in each."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name)
        self.streamer: FileStreamer = connect(self.path, "?segment=1500")
        with self.streamer.admin() as admin:
            admin.create("news", shards=SHARDS)
        self.every, log.INDEX_EVERY = log.INDEX_EVERY, 1  # so that short segments have an index, too
        self.stored: list[list[tuple[str, int]]] = [[] for _ in range(SHARDS)]
        self.count = 0

    @initialize()
    def begin(self) -> None:
        self.producer = self.streamer.producer("news", delivery="exactly_once")
        self.reader: Consumer = self.streamer.consumer("news", mode="repeat")
        self.position = [0] * SHARDS
        self.open_group()
        self.committed = [0] * SHARDS
        self.at = [0] * SHARDS
        self.pending: int | None = None

    def open_group(self) -> None:
        self.group: Consumer = self.streamer.consumer("news", mode="repeat", group="g")

    # Sending.

    def send(self, many: list[int]) -> None:
        receipts = []
        for minute in many:
            self.count += 1
            text = f"message {self.count}"
            at = EPOCH + timedelta(minutes=minute)
            receipts.append((self.producer.send(text, key=text, timestamp=at, id=text), text, minute))
        for receipt, text, minute in receipts:
            place = receipt.result()
            assert place.sequence == len(self.stored[place.shard])
            self.stored[place.shard].append((text, minute))

    @rule(many=st.lists(minutes, min_size=1, max_size=8))
    def send_some(self, many: list[int]) -> None:
        self.send(many)

    @precondition(lambda self: self.count > 0)
    @rule(data=st.data())
    def send_again(self, data: st.DataObject) -> None:
        text = f"message {data.draw(st.integers(1, self.count))}"
        if any(text == known for shard in self.stored for known, _ in shard):
            self.producer.send("another text", key=text, id=text).result()

    @rule()
    def reopen_the_producer(self) -> None:
        self.producer.close()
        self.producer = self.streamer.producer("news", delivery="exactly_once")

    @rule(many=st.lists(minutes, min_size=1, max_size=5), data=st.data())
    def crash_while_writing(self, many: list[int], data: st.DataObject) -> None:
        """What was sent last was not finished: a shard ends at some byte of it."""
        shard = data.draw(st.integers(0, SHARDS - 1))
        before, length = logs(self.path, shard=shard), len(self.stored[shard])
        size = before[-1].stat().st_size if before else 0
        self.send(many)
        self.producer.close()
        files = [file for file in logs(self.path, shard=shard) if file not in before[:-1]]
        lengths = [file.stat().st_size - (size if file in before else 0) for file in files]
        if sum(lengths):
            cut = data.draw(st.integers(1, sum(lengths)))
            while cut > 0:
                file, some = files.pop(), lengths.pop()
                os.truncate(file, file.stat().st_size - min(cut, some))
                if cut >= some and file not in before:
                    file.unlink()
                    file.with_suffix(".index").unlink()
                cut -= some
        # Readers that saw it are gone, too: the machine crashed.
        self.reader.close()
        self.group._close()
        self.producer = self.streamer.producer("news", delivery="exactly_once")
        with self.streamer.consumer("news", mode="repeat") as consumer:
            consumer.assign(shard)
            left = [message.text() for message in there(consumer)]
        assert left == [text for text, _ in self.stored[shard][: len(left)]]
        assert len(left) >= length
        del self.stored[shard][len(left) :]
        self.reader = self.streamer.consumer("news", mode="repeat")
        self.position = [0] * SHARDS
        self.open_group()
        self.after_a_group_crash()

    @precondition(lambda self: any(logs(self.path, shard=n) for n in range(SHARDS)))
    @rule(data=st.data())
    def lose_an_index(self, data: st.DataObject) -> None:
        found = sorted(self.path.rglob("*.index"))
        if found:
            os.truncate(data.draw(st.sampled_from(found)), 0)

    # Reading.

    def check(self, message: Message, position: list[int]) -> None:
        shard = message.shard
        assert message.sequence == position[shard]
        text, minute = self.stored[shard][position[shard]]
        assert message.text() == text
        assert message.key == text.encode()
        assert message.timestamp == EPOCH + timedelta(minutes=minute)
        position[shard] += 1

    @rule(most=st.integers(1, 12))
    def read(self, most: int) -> None:
        for _ in range(most):
            message = self.reader.recv()
            if message is None:
                break
            self.check(message, self.position)

    @rule()
    def read_all(self) -> None:
        for message in there(self.reader):
            self.check(message, self.position)
        assert [
            max(n, len(shard)) for n, shard in zip(self.position, self.stored, strict=True)
        ] == self.position

    @rule(minute=minutes)
    def seek(self, minute: int) -> None:
        self.reader.seek(EPOCH + timedelta(minutes=minute))
        self.position = [
            next((n for n, (_, at) in enumerate(shard) if at >= minute), len(shard)) for shard in self.stored
        ]
        self.read(3)

    @rule(sequence=sequences)
    def rewind(self, sequence: int) -> None:
        self.reader.rewind(sequence)
        self.position = [sequence] * SHARDS
        self.read(3)

    # Groups.

    @rule(most=st.integers(1, 12))
    def read_in_the_group(self, most: int) -> None:
        for _ in range(most):
            message = self.group.recv()
            self.pending = None
            if message is None:
                break
            self.check(message, self.at)
            self.pending = message.shard

    @rule()
    def commit(self) -> None:
        self.group.commit()
        self.committed, self.pending = list(self.at), None

    @rule()
    def close_the_group(self) -> None:
        self.group.close()
        processed = [n - (shard == self.pending) for shard, n in enumerate(self.at)]
        self.open_group()
        assert self.on_disk() == processed
        self.committed, self.at, self.pending = processed, list(processed), None

    @rule()
    def crash_the_group(self) -> None:
        self.group._close()
        self.open_group()
        self.after_a_group_crash()

    def after_a_group_crash(self) -> None:
        """What was committed stands; what was processed since may be; no more."""
        processed = [n - (shard == self.pending) for shard, n in enumerate(self.at)]
        found = self.on_disk()
        for least, position, most in zip(self.committed, found, processed, strict=True):
            assert least <= position <= most
        self.committed, self.at, self.pending = found, list(found), None

    def on_disk(self) -> list[int]:
        folder = self.path / "news" / "groups" / "g"
        return [committed(folder, shard) or 0 for shard in range(SHARDS)]

    @invariant()
    def is_described(self) -> None:
        with self.streamer.admin() as admin:
            told = admin.describe("news")
        assert [shard.produced for shard in told.shards] == [len(shard) for shard in self.stored]

    def teardown(self) -> None:
        log.INDEX_EVERY = self.every
        for opened in ("producer", "reader", "group"):
            if hasattr(self, opened):
                getattr(self, opened).close()
        self.folder.cleanup()


Streams.TestCase.settings = settings(
    max_examples=40, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
TestStreams = Streams.TestCase
