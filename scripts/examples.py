"""Writes the sample data of examples/data/: the same bytes each time, so that examples have known results."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Iterator
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent.parent / "examples" / "data"
CUSTOMERS, EVENTS = 60, 1000
COUNTRIES = {"DE": 5, "FR": 4, "JP": 3, "BR": 3, "KE": 2, "NZ": 1}
FIRST = (
    "Ada",
    "Bo",
    "Chen",
    "Dina",
    "Emil",
    "Fatou",
    "Goran",
    "Hana",
    "Ines",
    "Jun",
    "Kofi",
    "Lena",
    "Mika",
    "Noor",
    "Otto",
    "Pia",
    "Rosa",
    "Sven",
    "Tariq",
    "Wanja",
)
LAST = (
    "Abe",
    "Berg",
    "Costa",
    "Diaz",
    "Eriksen",
    "Fischer",
    "Garcia",
    "Hughes",
    "Ito",
    "Jansen",
    "Keller",
    "Lopes",
    "Moreau",
    "Nakai",
    "Otieno",
)
PRICES = {"kettle": 39.90, "lamp": 24.50, "chair": 119.00, "rug": 74.00, "mug": 8.90, "clock": 31.20}
TYPES = {"view": 60, "cart": 18, "purchase": 20, "refund": 2}
SYSTEMS = {"android": 5, "ios": 4, "web": 6}


def pick(random_: random.Random, weights: dict[str, int]) -> str:
    return random_.choices(list(weights), list(weights.values()))[0]


def customers(random_: random.Random) -> Iterator[dict[str, Any]]:
    for number in range(1, CUSTOMERS + 1):
        yield {
            "id": number,
            "name": f"{random_.choice(FIRST)} {random_.choice(LAST)}",
            "country": pick(random_, COUNTRIES),
            "tier": pick(random_, {"basic": 7, "plus": 2, "gold": 1}),
            "since": date(2022, 1, 1) + timedelta(days=random_.randrange(1400)),
        }


def events(random_: random.Random) -> Iterator[dict[str, Any]]:
    time = datetime(2026, 3, 1, tzinfo=timezone.utc)
    for number in range(1, EVENTS + 1):
        time += timedelta(seconds=random_.randrange(30, 1200))
        product, quantity = random_.choice(list(PRICES)), random_.choice([1, 1, 1, 2, 3])
        kind = pick(random_, TYPES)
        priced = kind in ("purchase", "refund")
        yield {
            "id": number,
            "ts": time.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "customer_id": random_.randrange(1, CUSTOMERS + 1),
            "type": kind,
            "product": product,
            "amount": round(PRICES[product] * quantity, 2) if priced else None,
            "device": {
                "os": pick(random_, SYSTEMS),
                "version": f"{random_.randrange(12, 19)}.{random_.randrange(5)}",
            },
        }


def write(folder: Path) -> None:
    random_ = random.Random(7)  # noqa: S311 - sample data, not a secret
    rows = list(customers(random_))
    with (folder / "customers.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    lines = [json.dumps(event) for event in events(random_)]
    dirty = [*lines[:3], lines[3][:40], lines[4], '{"id": "six", "type": "view"}', *lines[6:10]]
    for name, content in (("events", lines), ("dirty", dirty)):
        (folder / f"{name}.jsonl").write_text("\n".join(content) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write(DATA)
