"""Counters and gauges, and the text in which Prometheus reads them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from threading import Lock
from typing import TypeVar

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Labels = tuple[tuple[str, str], ...]


class Metric:
    """A number for each set of labels."""

    kind = "untyped"

    def __init__(self, name: str, help: str) -> None:
        self.name, self.help = name, help
        self._values: dict[Labels, float] = {}
        self._lock = Lock()

    def value(self, **labels: str) -> float | None:
        """The number for these labels; None when there is none yet."""
        return self._values.get(_key(labels))

    def lines(self) -> Iterator[str]:
        with self._lock:
            values = sorted(self._values.items())
        if values:
            yield f"# HELP {self.name} {_escaped(self.help)}"
            yield f"# TYPE {self.name} {self.kind}"
        for labels, value in values:
            told = ",".join(f'{name}="{_escaped(text, quote=True)}"' for name, text in labels)
            yield f"{self.name}{{{told}}} {_number(value)}" if told else f"{self.name} {_number(value)}"


class Counter(Metric):
    """A number that only grows, as long as the process lives."""

    kind = "counter"

    def add(self, amount: float = 1, **labels: str) -> None:
        if amount < 0:
            raise ValueError(f"{self.name} cannot be made smaller")
        key = _key(labels)
        with self._lock:
            self._values[key] = self._values.get(key, 0) + amount


class Gauge(Metric):
    """A number as it is now."""

    kind = "gauge"

    def set(self, value: float | None, **labels: str) -> None:
        """None when it is not known any more."""
        key = _key(labels)
        with self._lock:
            if value is None:
                self._values.pop(key, None)
            else:
                self._values[key] = value


M = TypeVar("M", bound=Metric)


class Registry:
    """The metrics of a process, by their names."""

    def __init__(self) -> None:
        self._metrics: dict[str, Metric] = {}

    def counter(self, name: str, help: str) -> Counter:
        return self._add(Counter(name, help))

    def gauge(self, name: str, help: str) -> Gauge:
        return self._add(Gauge(name, help))

    def _add(self, metric: M) -> M:
        if metric.name in self._metrics:
            raise ValueError(f"there is a metric {metric.name} already")
        self._metrics[metric.name] = metric
        return metric

    def text(self) -> str:
        """All that is known, in Prometheus' text format: by name, then by labels."""
        found = sorted(self._metrics.items())
        return "".join(f"{line}\n" for _, metric in found for line in metric.lines())


REGISTRY = Registry()
"""Of this process."""


def _key(labels: dict[str, str]) -> Labels:
    return tuple(sorted(labels.items()))


def _escaped(text: str, *, quote: bool = False) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace('"', '\\"') if quote else text


def _number(value: float) -> str:
    if math.isnan(value) or math.isinf(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) else repr(value)
