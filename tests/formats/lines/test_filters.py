from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest

from penstock.formats.lines.filters import Filters
from penstock.formats.lines.kinds import Field
from penstock.schema import Column

_FIELDS = [
    Field.of(Column(n, t)) for n, t in [("i", "INT"), ("d", "DOUBLE"), ("s", "STRING"), ("b", "BOOLEAN")]
]
_COLUMNS = [
    pa.array([1, 2, None, 4], pa.int32()),
    pa.array([1.5, math.nan, None, -0.0]),
    pa.array(["ab", "é", None, ""]),
    pa.array([True, False, None, True]),
]


@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        (("I", "=", 2), [1]),
        (("d", ">", 1.0), [0, 1]),
        (("d", ">", 1), [0, 1]),
        (("d", ">=", 1.5), [0, 1]),
        (("d", "<", 100.0), [0, 3]),
        (("d", "=", 0.0), [3]),
        (("s", "<=", "ab"), [0, 3]),
        (("i", "in", (1, 4)), [0, 3]),
        (("s", "is not null", None), [0, 1, 3]),
        (("b", "=", True), [0, 3]),
    ],
)
def test_a_condition_means_what_spark_means(condition: tuple[str, str, Any], rows: list[int]) -> None:
    mask = Filters(_FIELDS, [condition]).mask(_COLUMNS)
    assert [i for i, passed in enumerate(mask.to_pylist()) if passed] == rows


@pytest.mark.parametrize(
    "condition",
    [
        ("x", "=", 1),
        ("i", "=", 1 << 40),
        ("i", "=", 1.5),
        ("i", "<>", 1),
        ("d", ">", math.nan),
        ("i", "in", (1, None)),
        ("s", "=", 5),
        ("b", "=", 1),
    ],
)
def test_what_is_not_exact_is_left_to_spark(condition: Any) -> None:
    assert Filters(_FIELDS, [condition]).mask(_COLUMNS) is None


def test_all_conditions_must_hold() -> None:
    mask = Filters(_FIELDS, [("i", ">", 1), ("b", "=", True)]).mask(_COLUMNS)
    assert [i for i, passed in enumerate(mask.to_pylist()) if passed] == [3]
