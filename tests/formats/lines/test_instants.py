from __future__ import annotations

from datetime import date, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.formats.lines.instants import parse_date, parse_timestamp

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@settings(deadline=None)
@given(st.dates())
def test_dates_are_counted_as_python_does(day: date) -> None:
    assert parse_date(day.isoformat()) == (day - date(1970, 1, 1)).days


@settings(deadline=None)
@given(st.datetimes(min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30)), st.integers(-1079, 1079))
def test_instants_are_counted_as_python_does(at: datetime, minutes: int) -> None:
    zoned = at.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    assert parse_timestamp(zoned.isoformat(), "UTC") == (zoned - _EPOCH) // timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("text", "zone", "expected"),
    [
        ("2026-07-01 12:00:00", "Europe/Zurich", "2026-07-01T10:00:00+00:00"),
        ("2026-03-29 02:30:00", "Europe/Zurich", "2026-03-29T01:30:00+00:00"),
        ("2026-10-25 02:30:00", "Europe/Zurich", "2026-10-25T00:30:00+00:00"),
        ("2026-01-02T03:04:05 America/New_York", "UTC", "2026-01-02T08:04:05+00:00"),
        ("2026-01-02", "UTC", "2026-01-02T00:00:00+00:00"),
        ("2026-1-2 3:4:5.5", "UTC", "2026-01-02T03:04:05.500000+00:00"),
    ],
)
def test_zones(text: str, zone: str, expected: str) -> None:
    micros = parse_timestamp(text, zone)
    assert micros is not None
    assert (_EPOCH + timedelta(microseconds=micros)).isoformat() == expected


@pytest.mark.parametrize(
    "text",
    ["", "x", "2026-02-30", "2026-01-02T24:00:00", "2026-01-02T03:04Z", "2026-01-02T03:04:05 Nowhere/City"],
)
def test_no_instants(text: str) -> None:
    assert parse_timestamp(text, "UTC") is None


def test_a_local_time_names_no_zone() -> None:
    assert parse_timestamp("2026-01-02T03:04:05Z", None) is None
    assert parse_timestamp("1970-01-01T00:00:01", None) == 1_000_000
