"""Numbers, times and columns of `penstock top`, without a screen."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.cli.top import figures
from penstock.cli.top.columns import COLUMNS, column_at, fitted, heading, ordered, row
from penstock.errors import SetupError
from penstock.streams import Description, Shard
from penstock.streams.meter import Throughput
from penstock.streams.watching import Latest, View

NOON = datetime(2026, 1, 31, 12, tzinfo=timezone.utc)


def view(name: str, rate: float = 0.0, cluster: str = "file://x", lag: int | None = None) -> View:
    told = Description(
        name, (Shard(0, 0, 12, 13), Shard(1, None, None, 0)), lag={} if lag is None else {"g": lag}
    )
    return View(cluster, name, told, Latest(NOON, 0, 12, "rain\nand snow", 13), Throughput(rate, rate, rate))


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "-"), (0, "0"), (0.04, "0"), (0.4, "0.4"), (9.94, "9.9"), (9.96, "10"), (1240.4, "1,240"),
        (9999.4, "9,999"), (9999.6, "10.0K"), (999_940, "999.9K"), (999_960, "1.0M"), (3.14e9, "3.1G"),
        (2e12, "2.0T"),
    ],
)  # fmt: skip
def test_numbers(value: float | None, shown: str) -> None:
    assert figures.number(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "-"), (0, "0 B"), (812, "812 B"), (1023.4, "1023 B"), (1024, "1.0 KB"), (102_300, "99.9 KB"),
        (102_400, "100 KB"), (1024**2, "1.0 MB"), (5 * 1024**4, "5.0 TB"),
    ],
)  # fmt: skip
def test_sizes(value: float | None, shown: str) -> None:
    assert figures.size(value) == shown


@settings(deadline=None)
@given(st.floats(0, 9e14))
def test_figures_fit_their_columns(value: float) -> None:
    assert len(figures.number(value)) <= COLUMNS["rate"].width
    assert len("~" + figures.size(value)) <= COLUMNS["bytes"].width


def test_bars() -> None:
    assert figures.bars([], 4) == "    "
    assert figures.bars([0, 0], 4) == "  ▁▁"
    assert figures.bars([9, 0, 1, 4, 8], 4) == "▁▂▅█"
    assert figures.curve([0, 0]) == []
    assert figures.curve([1, 2])[-3:] == [0, 1, 2]
    assert figures.curve([1.0] * 100)[0] == 0


def test_times_are_in_utc_and_of_today_or_a_day() -> None:
    east = timezone(timedelta(hours=2))
    assert figures.clock(datetime(2026, 1, 31, 13, 5, tzinfo=east), NOON) == "11:05:00"
    assert figures.clock(NOON - timedelta(days=1), NOON) == "26-01-30"


def test_streams_are_sorted_with_the_unknown_last() -> None:
    away = View("redis://x", "", failure=SetupError("away", "nobody answers"))
    views = [away, view("b", 1, lag=3), view("a", 1), view("c", 5, lag=9)]

    def names(by: str, falls: bool) -> str:
        return " ".join(one.name or "?" for one in ordered(views, by, falls))

    assert names("rate", True) == "c a b ?"
    assert names("rate", False) == "a b c ?"
    assert names("lag", True) == "c b a ?"
    assert names("lag", False) == "b c a ?"
    assert names("stream", False) == "a b c ?"
    assert names("state", False) == "? a b c"


@pytest.mark.parametrize("width", [70, 80, 100, 133, 240])
def test_columns_fill_a_line_and_stand_under_their_titles(width: int) -> None:
    views = [view("orders", 20_000, lag=7), view("x" * 60)]
    columns = fitted(views, width)
    if width >= 80:
        assert 1 + sum(column.width + 1 for column in columns.values()) == width
    assert ("message" in columns) is (width >= 100)
    head = heading(columns, "rate", True)
    for one in (head, *(row(one, columns, NOON) for one in views)):
        assert one.cell_len == head.cell_len
    line = row(views[0], columns, NOON).plain
    assert line[: head.plain.index("▾")].endswith(" 20.0K")
    assert "\n" not in line
    assert column_at(columns, head.plain.index("lag")) == "lag"
    assert column_at(columns, 3) == "stream"
    assert column_at(columns, 0) is None
    assert column_at(columns, 1000) is None


def test_streams_of_several_systems_are_told_apart() -> None:
    views = [view("news"), view("news", cluster="redis://x")]
    lines = [row(one, fitted(views, 120), NOON).plain.split()[0] for one in views]
    assert lines == ["news@file", "news@redis"]


def test_why_one_is_away_has_the_rest_of_its_line() -> None:
    said = "no Redis server answers at 127.0.0.1:6379: connection refused"
    away = View("redis://me:secret@x", "", failure=SetupError("away", said))
    columns = fitted([away, view("a")], 100)
    text = row(away, columns, NOON)
    assert said in text.plain
    assert text.cell_len == 99
