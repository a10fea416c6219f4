from __future__ import annotations

import math

import pytest

from penstock.metrics import Registry


@pytest.fixture
def registry() -> Registry:
    return Registry()


def test_the_text_is_in_a_stable_order(registry: Registry) -> None:
    lag = registry.gauge("lag", "Records behind.")
    rows = registry.counter("a_rows_total", "Rows.")
    lag.set(0.5, source="b", pipeline="p")
    rows.add(2, pipeline="q")
    rows.add(3, pipeline="p")
    rows.add(1, pipeline="p")
    assert registry.text() == (
        "# HELP a_rows_total Rows.\n"
        "# TYPE a_rows_total counter\n"
        'a_rows_total{pipeline="p"} 4\n'
        'a_rows_total{pipeline="q"} 2\n'
        "# HELP lag Records behind.\n"
        "# TYPE lag gauge\n"
        'lag{pipeline="p",source="b"} 0.5\n'
    )


def test_what_could_end_a_line_or_a_label_is_escaped(registry: Registry) -> None:
    gauge = registry.gauge("g", 'back\\slash "quoted"\nnext')
    gauge.set(1, source='back\\slash "quoted"\nnext')
    assert registry.text().splitlines() == [
        '# HELP g back\\\\slash "quoted"\\nnext',
        "# TYPE g gauge",
        'g{source="back\\\\slash \\"quoted\\"\\nnext"} 1',
    ]


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (0, "0"),
        (1.0, "1"),
        (1.25, "1.25"),
        (10**15, "1000000000000000"),
        (math.nan, "NaN"),
        (math.inf, "+Inf"),
        (-math.inf, "-Inf"),
    ],
)
def test_numbers(registry: Registry, value: float, told: str) -> None:
    registry.gauge("g", "A number.").set(value)
    assert registry.text().endswith(f"\ng {told}\n")


def test_a_metric_without_numbers_is_not_there(registry: Registry) -> None:
    gauge = registry.gauge("g", "A number.")
    assert registry.text() == ""
    gauge.set(1, pipeline="p")
    gauge.set(None, pipeline="p")
    assert registry.text() == ""
    assert gauge.value(pipeline="p") is None


def test_a_counter_only_grows(registry: Registry) -> None:
    counter = registry.counter("c", "Rows.")
    with pytest.raises(ValueError, match="smaller"):
        counter.add(-1)
    assert counter.value() is None


def test_a_name_is_given_once(registry: Registry) -> None:
    registry.counter("c", "Rows.")
    with pytest.raises(ValueError, match="already"):
        registry.gauge("c", "Rows.")
