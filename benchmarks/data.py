"""Input for the benchmarks: events of about 200 bytes in every format, from one seed.

A line of CSV repeats no names, so it has a longer column more to weigh the same.
"""

from __future__ import annotations

import csv
import json
import random
from pathlib import Path

FOLDER = Path(__file__).parent.parent / ".build" / "bench"
JSON_COLUMNS = (
    "id BIGINT, ts STRING, user_id BIGINT, event STRING, amount DOUBLE, country STRING, session STRING, "
    "agent STRING, ok BOOLEAN"
)
COLUMNS = {"jsonl": JSON_COLUMNS, "csv": JSON_COLUMNS + ", page STRING"}
STREAM_COLUMNS = JSON_COLUMNS.replace("ts STRING", "ts TIMESTAMP")
STREAM_SELECTED = "id, ts, user_id, event, amount, country"
STREAM_FILTER = "amount > 225 AND event IN ('purchase', 'refund')"
"""What the jobs on Kafka do with the events of the JSON file, as SQL that all systems know; it keeps 22%."""
EVENTS = ("view", "click", "purchase", "signup", "refund")
COUNTRIES = ("CH", "DE", "FR", "US", "JP")
AGENTS = ("Firefox/144.0 (X11; Linux)", "Chrome/156.0 (Windows NT 10)", "Safari/26.1 (Macintosh)")


def make(rows: int) -> dict[str, Path]:
    """The files of `rows` events by format, made unless they are there."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    files = {kind: FOLDER / f"events-{rows}.{kind}" for kind in ("jsonl", "csv")}
    if all(file.exists() for file in files.values()):
        return files
    chance = random.Random(20260101)
    with files["jsonl"].open("w") as lines, files["csv"].open("w", newline="") as table:
        writer = csv.writer(table, lineterminator="\n")
        writer.writerow([column.split()[0] for column in COLUMNS["csv"].split(", ")])
        for number in range(rows):
            event = {
                "id": number,
                "ts": f"2026-01-{number % 28 + 1:02}T{number % 24:02}:{number % 60:02}:{number * 7 % 60:02}Z",
                "user_id": chance.randrange(10**6),
                "event": EVENTS[number % 5],
                "amount": round(chance.random() * 500, 2),
                "country": chance.choice(COUNTRIES),
                "session": f"{chance.getrandbits(96):024x}",
                "agent": chance.choice(AGENTS),
                "ok": number % 3 == 0,
            }
            lines.write(json.dumps(event) + "\n")
            page = f"https://shop.example/{chance.choice(EVENTS)}/{chance.getrandbits(256):064x}"
            writer.writerow([*(json.dumps(v) if isinstance(v, bool) else v for v in event.values()), page])
    return files
