"""Messages as they come, for people who look."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from penstock.errors import PenstockError
from penstock.streams.tailing import Tail
from penstock.streams.watching import Latest
from tests.streams.files import connect, store
from tests.waiting import PATIENCE, until


class Told:
    """What a tail has told."""

    def __init__(self, folder: Path) -> None:
        self.live = False
        self.messages: list[Latest] = []
        self.came = 0
        self.failures: list[PenstockError] = []
        self.tail = Tail(f"file://{folder}/", "news", self._take, self.failures.append)

    def _take(self, messages: list[Latest], more: int) -> None:
        self.live = True
        self.messages += messages
        self.came += len(messages) + more


def test_what_fails_is_told_and_tried_again(tmp_path: Path) -> None:
    told = Told(tmp_path)
    told.tail.start()
    until(lambda: bool(told.failures), "a failure")
    assert told.failures[0].code == "missing-stream"
    store(tmp_path, "before")
    until(lambda: told.live, "a beginning")
    store(tmp_path, "one", "two")
    until(lambda: told.came == 2, "two messages")
    assert [message.text for message in told.messages] == ["one", "two"]
    told.tail.stop()
    assert told.tail.ended(PATIENCE)


def test_of_many_the_last_ones_are_told_and_all_are_counted(tmp_path: Path) -> None:
    store(tmp_path, "before")
    told = Told(tmp_path)
    told.tail.start()
    until(lambda: told.live, "a beginning")
    with connect(f"{tmp_path}/").producer("news") as producer:
        for n in range(20_000):
            producer.send(str(n))
    until(lambda: told.came == 20_000, "all")
    assert told.messages[-1].text == "19999"
    told.tail.stop()
    assert told.tail.ended(PATIENCE)


def test_what_it_held_is_closed(tmp_path: Path) -> None:
    store(tmp_path, "before")
    told = Told(tmp_path)
    told.tail.start()
    until(lambda: told.live, "a beginning")
    told.tail.stop()
    assert told.tail.ended(PATIENCE)
    with connect(f"{tmp_path}/").admin() as admin:
        assert admin.describe("news").consumers == ()
    assert not [thread for thread in threading.enumerate() if thread.name == "penstock-tail"]


def test_a_surprise_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tail, "_read", lambda _: 1 / 0)
    told = Told(tmp_path)
    told.tail.start()
    until(lambda: bool(told.failures), "a failure")
    told.tail.stop()
    assert told.tail.ended(PATIENCE)
    assert "ZeroDivisionError" in told.failures[0].message
