"""From where to where a stream is read."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import InputError
from penstock.streams import Capabilities, Consumer, Message, Producer, Streamer
from penstock.streams.reading import Reading, parse_start, parse_until
from penstock.uri import Uri
from tests.streams.files import connect, store
from tests.streams.test_consuming import Counting


def texts(reading: Reading) -> list[str]:
    with reading:
        return [message.text() for batch in reading.batches(lambda: False) for message in batch]


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("earliest", "earliest"),
        ("LATEST", "latest"),
        ("17", 17),
        ("1700000000000-3", "1700000000000-3"),
        ("2026-01-31", datetime(2026, 1, 31, tzinfo=timezone.utc)),
        ("2026-01-31T12:00Z", datetime(2026, 1, 31, 12, tzinfo=timezone.utc)),
        ("2026-01-31T12:00+02:00", datetime(2026, 1, 31, 10, tzinfo=timezone.utc)),
    ],
)
def test_starts(text: str, start: object) -> None:
    assert parse_start(text) == start


@pytest.mark.parametrize("text", ["", "first", "-1", "2026-13-01", "12:00"])
def test_what_is_no_start(text: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_start(text)
    assert caught.value.code == "bad-start"


def test_now_is_a_time() -> None:
    assert datetime.now(timezone.utc) - parse_until("now") < timedelta(minutes=1)


def test_what_comes_after_the_beginning_is_left_out(tmp_path: Path) -> None:
    store(tmp_path, "a", "b")
    with connect(f"{tmp_path}/news") as streamer:
        reading = Reading(streamer)
        store(tmp_path, "c")
        assert texts(reading) == ["a", "b"]
        assert texts(Reading(streamer, start=1)) == ["b", "c"]


def test_a_time_to_come_is_waited_for(tmp_path: Path) -> None:
    store(tmp_path, "a")
    now = datetime.now(timezone.utc)
    until = now + timedelta(seconds=1)
    with connect(f"{tmp_path}/news") as streamer:
        reading = Reading(streamer, start="latest", until=until)
        with streamer.producer("news") as producer:
            producer.send("b", timestamp=now)
            producer.send("late", timestamp=until + timedelta(seconds=1))
        got = texts(reading)
    assert got == ["b"]
    assert datetime.now(timezone.utc) >= until


def test_a_group_is_given_all_that_it_received(tmp_path: Path) -> None:
    store(tmp_path, "a", "b")
    with connect(f"{tmp_path}/news") as streamer:
        with Reading(streamer, group="g") as reading:
            store(tmp_path, "c")
            got = []
            for batch in reading.batches(lambda: False):
                got += [message.text() for message in batch]
                reading.commit()
        with Reading(streamer, group="g") as reading:
            for batch in reading.batches(lambda: False):
                got += [message.text() for message in batch]
                reading.commit()
    assert got == ["a", "b", "c"]


class Ending(Counting):
    def _fetch(self, most: int, wait: float) -> list[Message]:
        got = super()._fetch(most, wait)
        self.ended = not got
        return got


class Endings(Streamer):
    """Messages that end, of which nobody knows when."""

    schemes = ("ending",)
    capabilities = Capabilities()

    def located(self) -> tuple[str, ...]:
        return ("s",)

    def _producer(self, *_: Any) -> Producer:
        raise NotImplementedError

    def _consumer(self, *_: Any) -> Consumer:
        return Ending(7)


def numbers() -> Iterator[str]:
    return map(str, range(7))


def test_what_ends_by_itself_is_read_to_its_end() -> None:
    streamer = Endings(Uri.parse("ending://s"))
    assert texts(Reading(streamer, follow=True)) == list(numbers())
    with pytest.raises(InputError) as caught:
        Reading(streamer)
    assert caught.value.code == "no-end"
