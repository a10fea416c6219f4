"""Draws docs/top.svg: `penstock top` over made-up streams, whose traffic and clock are the same each time.

python scripts/top_picture.py [COLUMNSxLINES FILE [KEY...]] draws others.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

from penstock.cli.top.screen import Top
from penstock.streams import Producer, Streamer, connect
from penstock.streams.looking import Looker
from penstock.streams.watching import Board

PICTURE = Path(__file__).parent.parent / "docs" / "top.svg"
SECONDS = 75
CITIES = ("Ulm", "Bonn", "Kiel", "Jena", "Trier")
Traffic = Callable[[int, random.Random], int]
STREAMS: dict[str, tuple[int, Traffic]] = {
    "clicks": (4, lambda second, chance: 180 + 8 * (second % 20) + chance.randint(-20, 20)),
    "orders": (3, lambda second, chance: chance.randint(30, 50) + (240 if second >= SECONDS - 2 else 0)),
    "payments": (2, lambda _, chance: chance.randint(20, 35)),
    "sensors": (1, lambda second, _: 12 if second % 4 == 0 else 0),
    "audit": (1, lambda _, chance: chance.randint(1, 8)),
    "refunds": (1, lambda _, chance: int(chance.random() < 0.25)),
    "invoices": (1, lambda second, chance: chance.randint(1, 6) if second < 9 else 0),
}
SPACE = "&#160;"
TEXT = re.compile(
    rf'x="([\d.]+)" y="([\d.]+)" textLength="([\d.]+)"([^>]*)>((?:{SPACE})*)(.*?)((?:{SPACE})*)</text>'
)
CELL = 12.2
GROUPS = (("clicks", "reports", 0.6), ("orders", "billing", 0.9), ("payments", "billing", 1.0))


@dataclass
class Clock:
    now: datetime = datetime(2026, 1, 31, 12, tzinfo=timezone.utc)

    def __call__(self) -> datetime:
        return self.now


def message(stream: str, number: int, chance: random.Random) -> str:
    city = chance.choice(CITIES)
    if stream == "clicks":
        return json.dumps({"page": f"/{city.lower()}", "ms": chance.randint(3, 90)})
    return json.dumps({"id": number, "city": city, "amount": chance.randint(100, 99999) / 100})


def send(producers: dict[str, Producer], second: int, now: datetime, chance: random.Random) -> None:
    for name, producer in producers.items():
        for n in range(STREAMS[name][1](second, chance)):
            producer.send(message(name, second * 1000 + n, chance), key=str(n), timestamp=now)
        producer.flush()


def read(streamer: Streamer, held: ExitStack) -> None:
    """Groups, each behind by so much as it is."""
    for stream, group, part in GROUPS:
        consumer = held.enter_context(streamer.consumer(stream, mode="repeat", group=group))
        with streamer.admin() as admin:
            left = int(sum(shard.produced for shard in admin.describe(stream).shards) * part)
        while left > 0:
            left -= len(consumer.batch(left))
        consumer.commit()


async def draw(width: int, height: int, keys: list[str]) -> str:
    clock, chance = Clock(), random.Random(5)  # noqa: S311 (a picture)
    with ExitStack() as held:
        streamer = held.enter_context(connect("file://streams/"))
        admin = held.enter_context(streamer.admin())
        for name, (shards, _) in STREAMS.items():
            admin.create(name, shards=shards)
        producers = {name: held.enter_context(streamer.producer(name)) for name in STREAMS}
        looker = Looker("file://streams/", clock)
        held.callback(looker.close)
        top = Top([looker], Board(), clock, interval=1.0)
        async with top.run_test(size=(width, height)) as pilot:
            for second in range(SECONDS):
                clock.now += timedelta(seconds=1)
                send(producers, second, clock.now, chance)
                if second == 10:
                    producers.pop("invoices").close()
                if second == SECONDS - 2:
                    read(streamer, held)
                top.take(looker.look())
            await pilot.pause()
            if keys:
                await pilot.press(*keys)
                await pilot.pause(1.0)
            return top.export_screenshot(title="penstock top")


def plain(picture: str) -> str:
    """With the fonts of whoever looks, not some from elsewhere, and without spaces around text, which not all
    who draw it count."""
    picture = re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL)
    picture = TEXT.sub(_without_spaces, picture.replace("Fira Code, monospace", "monospace"))
    return "\n".join(line.rstrip() for line in picture.splitlines()) + "\n"


def _without_spaces(found: re.Match[str]) -> str:
    x, y, length, rest, lead, text, trail = found.groups()
    begin = float(x) + CELL * lead.count(SPACE)
    width = float(length) - CELL * (lead + trail).count(SPACE)
    return f'x="{begin:.1f}" y="{y}" textLength="{width:.1f}"{rest}>{text}</text>'


def main(size: str = "100x24", file: str = str(PICTURE), *keys: str) -> None:
    width, height = map(int, size.split("x"))
    target = Path(file).resolve()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        target.write_text(plain(asyncio.run(draw(width, height, list(keys)))), encoding="utf-8")
        os.chdir(target.parent)


if __name__ == "__main__":
    main(*sys.argv[1:])
