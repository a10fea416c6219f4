"""kill -9 while producers send and groups read: what was promised is there."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from .files import connect, stored

KILLS = int(os.environ.get("PENSTOCK_STREAM_KILLS", "4"))
"""`make chaos` has more."""

SENDS = """
import sys
from tests.streams.files import connect
folder, delivery, first = sys.argv[1], sys.argv[2], int(sys.argv[3])
ids = delivery == "exactly_once"
with connect(folder, "?segment=30000").producer("news", delivery=delivery) as producer:
    for n in range(first, 1_000_000):
        receipt = producer.send(f"{n} {'x' * (n % 100)}", id=str(n) if ids else None)
        if n % 50 == 49:
            receipt.result()
            print(n + 1, flush=True)
"""

# Members take their time, so that there is always something left to read when they are killed.
READS = """
import sys, time
from tests.streams.files import connect
with open(sys.argv[2], "ab", buffering=0) as file:
    for message in connect(sys.argv[1]).consumer("news", mode="repeat", group="g"):
        file.write(message.payload + b"\\n")
        time.sleep(0.0005)
"""


def start(code: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def killed_while_sending(folder: Path, delivery: str, chance: random.Random, first: int) -> int:
    """Sends until it is killed; how many messages it was told are stored."""
    process = start(SENDS, f"{folder}/", delivery, first)
    assert process.stdout is not None
    acknowledged = first
    for _ in range(chance.randint(1, 40)):
        acknowledged = int(process.stdout.readline())
    time.sleep(chance.random() / 100)
    process.kill()
    rest = process.stdout.read().split("\n")[:-1]  # what follows the last line end was cut by the kill
    process.stdout.close()
    process.wait()
    return max([acknowledged, *map(int, rest)])


def test_a_killed_producer_stored_what_it_was_told(tmp_path: Path) -> None:
    chance = random.Random(1)
    first = 0
    for _ in range(KILLS):
        acknowledged = killed_while_sending(tmp_path, "at_least_once", chance, first)
        got = [int(text.split()[0]) for text in stored(tmp_path)]
        assert set(range(acknowledged)) <= set(got)
        # Whoever goes on where it was told sends some again.
        first = acknowledged
    assert [
        n for n, text in zip(got, stored(tmp_path), strict=True) if text != f"{n} {'x' * (n % 100)}"
    ] == []


def test_a_killed_producer_that_sends_again_stores_once(tmp_path: Path) -> None:
    chance = random.Random(2)
    first = 0
    for _ in range(KILLS):
        first = killed_while_sending(tmp_path, "exactly_once", chance, max(0, first - 70))
        got = stored(tmp_path)
        assert got == [f"{n} {'x' * (n % 100)}" for n in range(len(got))]
        assert len(got) >= first


def killed_while_reading(begin: Callable[[], subprocess.Popen[str]], progress: Callable[[], int]) -> None:
    """Two members read; one after the other is killed, and followed by another."""
    chance = random.Random(3)
    members = [begin(), begin()]
    try:
        for _ in range(KILLS):
            before, deadline = progress(), time.monotonic() + 30
            while progress() <= before:
                assert time.monotonic() < deadline, "nobody reads"
                time.sleep(0.01)
            time.sleep(chance.random() / 5)
            victim = members.pop(0)
            victim.kill()
            victim.communicate()
            members.append(begin())
    finally:
        for member in members:
            member.kill()
            member.communicate()


def spread(folder: Path, count: int) -> list[str]:
    with connect(folder).admin() as admin:
        admin.create("news", shards=4)
    with connect(folder).producer("news") as producer:
        for n in range(count):
            producer.send(f"{n:06}", key=str(n))
    return [f"{n:06}" for n in range(count)]


def test_a_group_whose_members_are_killed_misses_nothing(tmp_path: Path) -> None:
    sent = spread(tmp_path, 100_000)
    seen = tmp_path / "seen"
    seen.touch()
    killed_while_reading(lambda: start(READS, tmp_path, seen), lambda: seen.stat().st_size)
    before = [line for line in seen.read_text().splitlines() if len(line) == 6]
    rest = []
    with connect(tmp_path).consumer("news", mode="repeat", group="g") as consumer:
        while some := consumer.batch(timeout=1.5):
            rest += [message.text() for message in some]
    assert before, "the members read nothing before they were killed"
    assert rest, "the members read all before they were killed"
    assert set(before) | set(rest) == set(sent)
