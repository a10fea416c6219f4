"""kill -9 in the middle: effects that share a transaction with their positions stand once, everywhere."""

from __future__ import annotations

import os
import random
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.waiting import until

from .subject import Subject
from .test_conformance import MARKS, SUBJECTS

KILLS = int(os.environ.get("PENSTOCK_STREAM_KILLS", "3"))
"""`make chaos` has more."""
COUNT = 300 * (KILLS + 1)

COUNTS = """
import sqlite3, sys, time
from penstock.streams import Positions, connect
uri, stream, path, group, pause = sys.argv[1:]
database = sqlite3.connect(path, timeout=60)
database.execute("PRAGMA synchronous = OFF")
positions = Positions(database, "totals")
streamer = connect(uri)
for message in streamer.consumer(stream, mode="exactly_once", group=group or None, positions=positions):
    database.execute("INSERT INTO effects VALUES (?)", (message.text(),))
    positions.keep(message)
    database.commit()
    time.sleep(float(pause))
"""
"""A reader takes its time, so that there is something left to read when it is killed."""

KEPT = [name for name, kind in SUBJECTS.items() if "replay" in kind.required]


@pytest.fixture
def subject(request: pytest.FixtureRequest) -> Iterator[Subject]:
    kind = SUBJECTS[request.param]
    subject = kind(request.getfixturevalue(kind.fixture))
    yield subject
    subject.close()


class Readers:
    """Processes that read one stream; as many as can share a position store."""

    def __init__(self, subject: Subject, stream: str, path: Path) -> None:
        self._told = (subject.streamer().uri.text, stream, path)
        self._group = "g" if "shared_positions" in subject.required else ""
        self._living: list[subprocess.Popen[str]] = []
        self.add()
        if self._group:
            self.add()

    def add(self, pause: float = 0.001) -> None:
        arguments = map(str, (*self._told, self._group, pause))
        self._living.append(subprocess.Popen([sys.executable, "-c", COUNTS, *arguments], text=True))

    def kill(self) -> None:
        victim = self._living.pop(0)
        assert victim.poll() is None, "it ended by itself"
        victim.kill()
        victim.wait()

    def close(self) -> None:
        while self._living:
            victim = self._living.pop()
            victim.kill()
            victim.wait()


@pytest.mark.parametrize("subject", [pytest.param(name, marks=MARKS[name]) for name in KEPT], indirect=True)
def test_effects_stand_once_though_readers_are_killed(subject: Subject, tmp_path: Path) -> None:
    stream = subject.create(shards=4 if "shards" in subject.required else 1)
    sent = [f"{n:06}" for n in range(COUNT)]
    with subject.streamer() as streamer, streamer.producer(stream) as producer:
        for text in sent:
            producer.send(text, key=text)
    path = tmp_path / "effects.db"
    chance = random.Random(3)
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("CREATE TABLE effects (text)")
        database.commit()

        def count() -> int:
            (number,) = database.execute("SELECT count(*) FROM effects").fetchone()
            return int(number)

        with closing(Readers(subject, stream, path)) as readers:
            for _ in range(KILLS):
                enough = count() + chance.randint(1, 200)
                until(lambda enough=enough: count() >= enough, "somebody has read more")
                readers.kill()
                assert count() < COUNT, "all was read before the last was killed"
                readers.add()
            readers.close()
            readers.add(0)
            until(lambda: count() >= COUNT, "all effects stand")
        effects = Counter(text for (text,) in database.execute("SELECT text FROM effects"))
    assert effects == Counter(sent)
