"""What is decided in bulk is decided as the reference does."""

from __future__ import annotations

import math
import re
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.formats.lines import bulk
from penstock.formats.lines.bulk import decide, not_json_number
from penstock.formats.lines.kinds import Field, Mismatch, build, from_json, from_text, kind_of
from penstock.schema import Column

_TYPES = [
    "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(10, 2)", "BOOLEAN", "DATE",
    "TIMESTAMP", "TIMESTAMP_NTZ", "STRING", "VARCHAR(3)",
]  # fmt: skip
_NUMBER = st.from_regex(r"[+-]?[0-9]{0,20}(\.[0-9]{0,6})?([eE][+-]?[0-9]{1,3})?", fullmatch=True)
_TIME = st.from_regex(
    r"20[0-9]{2}-[0-9]{1,2}-[0-9]{2}"
    r"([T ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,7})?(Z|[+-][0-9]{2}:[0-9]{2})?)?",
    fullmatch=True,
)
_TEXTS = st.lists(
    st.none()
    | _NUMBER
    | st.integers().map(str)
    | st.floats().map(repr)
    | _TIME
    | st.datetimes().map(str)
    | st.sampled_from(
        ["true", "false", "True", "nan", "inf", "0x1F", "1/2", "-", ".", "e", " 1", "é", "abcd"]
    )
    | st.text(max_size=5),
    max_size=30,
)


def _reference(field: Field, text: str | None, json: bool) -> Any:
    if text is None:
        return None
    try:
        value = from_json(field, 1.0, text, "UTC") if json else from_text(field, text, "UTC")
    except (Mismatch, ValueError):
        return Mismatch
    return build(field, [value])[0].as_py()


def _same(one: Any, other: Any) -> bool:
    nan = isinstance(one, float) and isinstance(other, float) and math.isnan(one) and math.isnan(other)
    return nan or one == other


@pytest.mark.parametrize("type", _TYPES)
@settings(deadline=None)
@given(texts=_TEXTS)
def test_csv_values(type: str, texts: list[str | None]) -> None:
    field = Field("x", kind_of(Column("x", type)))
    array, undecided = decide(pa.array(texts, pa.string()), field.kind, "UTC")
    for i, text in enumerate(texts):
        if undecided is None or not undecided[i]:
            assert _same(array[i].as_py(), _reference(field, text, json=False)), text


@pytest.mark.parametrize("type", ["TINYINT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(10, 2)"])
@settings(deadline=None)
@given(texts=_TEXTS)
def test_json_numbers(type: str, texts: list[str | None]) -> None:
    field = Field("x", kind_of(Column("x", type)))
    array, undecided = decide(pa.array(texts, pa.string()), field.kind, "UTC", json=True)
    for i, text in enumerate(texts):
        if undecided is None or not undecided[i]:
            assert text is None or re.search(bulk._JSON_NUMBER, text), text
            assert _same(array[i].as_py(), _reference(field, text, json=True)), text


@settings(deadline=None)
@given(_TEXTS)
def test_only_json_numbers_pass_as_such(texts: list[str | None]) -> None:
    wrong = not_json_number(pa.array(texts, pa.string()))
    for i, text in enumerate(texts):
        if wrong is None or not wrong[i]:
            assert text is None or re.search(bulk._JSON_NUMBER, text), text


def test_a_few_bad_values_leave_the_others_decided() -> None:
    texts = [str(i) for i in range(1000)]
    texts[500] = "x"
    array, undecided = decide(pa.array(texts), kind_of(Column("x", "BIGINT")), "UTC")
    assert undecided is not None
    assert undecided.nonzero()[0].tolist() == [500]
    assert array[999].as_py() == 999
    big = [*texts[:500], "99999999999999999999", *texts[501:]]
    _, undecided = decide(pa.array(big), kind_of(Column("x", "BIGINT")), "UTC")
    assert undecided is not None
    assert undecided.sum() <= bulk._FEW
    assert undecided[500]


def test_local_times_of_other_zones_are_left() -> None:
    texts = pa.array(["2026-03-29 02:30:00", "2026-03-29T02:30:00Z"])
    _, undecided = decide(texts, kind_of(Column("x", "TIMESTAMP")), "Europe/Zurich")
    assert undecided is not None
    assert undecided.tolist() == [True, False]
