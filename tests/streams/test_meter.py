"""How fast counters grow: arithmetic, with no clock but the numbers given."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.streams.meter import HOUR, MINUTE, SECOND, Meter, Throughput, Window

STEPS = st.lists(st.tuples(st.floats(0.05, 400.0), st.integers(0, 100_000)), min_size=1, max_size=200)
"""Seconds until the next look, and what came meanwhile."""


def metered(*steps: tuple[float, float], begin: float = 1000.0) -> Meter:
    meter, at, count = Meter(), begin, 500.0
    meter.add(at, count)
    for seconds, came in steps:
        at, count = at + seconds, count + came
        meter.add(at, count)
    return meter


def test_one_look_tells_no_rate() -> None:
    assert metered().throughput == Throughput()
    assert metered().watched == 0
    assert not metered().bursts


def test_a_minute_and_an_hour_are_projected_until_they_are_over() -> None:
    meter = metered((1, 10), (1, 30))
    assert meter.throughput == Throughput(30, 20 * 60, 20 * 3600)
    assert meter.watched == 2


def test_each_span_has_what_came_in_it() -> None:
    meter = metered(*[(1, 7)] * 3600, *[(1, 1)] * 60, (1, 4))
    told = meter.throughput
    assert told.second == 4
    assert told.minute == 59 + 4
    # Of an hour, looks are kept a quarter of a minute apart.
    assert told.hour == pytest.approx(3539 * 7 + 60 + 4, rel=0.005)


def test_what_came_long_ago_is_forgotten() -> None:
    meter = metered((1, 10_000), *[(1, 0)] * 61)
    assert meter.throughput.minute == 0
    assert meter.throughput.hour > 0


def test_looks_that_are_close_together_tell_of_a_second() -> None:
    meter = metered(*[(0.25, 5)] * 8)
    assert meter.throughput.second == 20


def test_a_gap_is_spread_over_its_time() -> None:
    assert metered((1, 10), (600, 6000)).throughput == Throughput(10, 600, pytest.approx(6010 / 601 * 3600))


def test_a_counter_that_goes_back_begins_anew() -> None:
    meter = metered((1, 100), (1, -300))
    assert meter.throughput == Throughput()
    assert meter.watched == 0
    meter.add(1004.0, 310.0)
    assert meter.throughput.second == 5


def test_a_clock_that_goes_back_begins_anew() -> None:
    meter = metered((1, 100), (-50, 100))
    assert meter.throughput == Throughput()
    meter.add(953.0, 710.0)
    assert meter.throughput.second == 5


@pytest.mark.parametrize(
    ("before", "last", "bursts"),
    [
        ([(1, 100)] * 10, (1, 300), True),
        ([(1, 100)] * 10, (1, 299), False),
        ([(1, 100)] * 9, (1, 900), False),  # too little is known
        ([(1, 0)] * 30, (1, 10), True),
        ([(1, 0)] * 30, (1, 9), False),  # too little came to be called so
        ([(1, 3)] * 30, (1, 12), False),
        ([(1, 3)] * 30, (1, 13), True),
        ([(2, 100)] * 10, (2, 300), True),
        ([(0.5, 50)] * 40, (0.5, 250), True),  # a second has 50 and 250
        ([(0.5, 50)] * 40, (0.5, 200), False),
        ([(600, 100)] * 3, (600, 300), True),  # looks further apart than a minute
        ([(1, 1000)] * 60 + [(1, 10)] * 61, (1, 40), True),  # its own recent mean, not that of long ago
    ],
)
def test_bursts(before: list[tuple[float, float]], last: tuple[float, float], bursts: bool) -> None:
    assert not metered(*before[-9:]).bursts
    assert metered(*before, last).bursts is bursts


def test_a_burst_that_goes_on_becomes_usual() -> None:
    steps: list[tuple[float, float]] = [(1, 10)] * 30
    told = []
    for _ in range(60):
        steps.append((1, 100))
        told.append(metered(*steps).bursts)
    assert told[0]
    assert not told[-1]
    assert told == sorted(told, reverse=True)


@settings(deadline=None)
@given(rate=st.integers(0, 10_000), seconds=st.integers(1, 20), looks=st.integers(1, 400))
def test_a_steady_rate_is_told_as_it_is(rate: int, seconds: int, looks: int) -> None:
    meter = metered(*[(seconds, rate * seconds)] * looks)
    assert meter.throughput == Throughput(rate * SECOND, rate * MINUTE, rate * HOUR)
    assert not meter.bursts


@settings(deadline=None)
@given(STEPS)
def test_rates_lie_between_the_slowest_and_the_fastest(steps: list[tuple[float, int]]) -> None:
    meter = metered(*steps)
    rates = [came / seconds for seconds, came in steps]
    told = meter.throughput
    for rate in (told.second, told.minute / MINUTE, told.hour / HOUR):
        assert min(rates) * (1 - 1e-6) - 1e-6 <= rate <= max(rates) * (1 + 1e-6) + 1e-6
    assert meter.watched == pytest.approx(sum(seconds for seconds, _ in steps))


@settings(deadline=None)
@given(STEPS, st.floats(0.5, 4000), st.floats(0, 100))
def test_a_window_covers_its_span_or_all_there_is(
    steps: list[tuple[float, int]], span: float, step: float
) -> None:
    window, at, count = Window(span, step=step), 0.0, 0.0
    looks = [(at, count)]
    window.add(at, count)
    for seconds, came in steps:
        at, count = at + seconds, count + came
        looks.append((at, count))
        window.add(at, count)
    assert window.elapsed >= min(span, at) - 1e-9
    # Its ends are looks that were, so what it says has grown did so in just that time.
    first = next(look for look in looks if at - look[0] <= window.elapsed + 1e-9)
    assert window.grown == count - first[1]


@pytest.mark.parametrize("gap", [0.1, 1.0, 7.0, 14.9, 40.0])
def test_an_hour_of_looks_needs_little_memory(gap: float) -> None:
    window = Window(HOUR, step=15.0)
    for look in range(int(2 * HOUR / gap)):
        window.add(look * gap, look)
    assert len(window._looks) <= HOUR / 15 + 3
    assert window.elapsed >= HOUR
