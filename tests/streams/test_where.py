"""Conditions over messages."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import InputError
from penstock.streams.where import condition

ORDER: dict[str, Any] = {
    "id": 7, "amount": 120.5, "city": "Ulm", "paid": True, "gone": None, "note": "it's == 5 and <> 6",
    "customer": {"name": "Ada", "tags": ["new", "vip"]}, "null_like": "null",
}  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "amount > 100",
        "amount>=120.5 AND amount <= 120.5",
        "100 < amount < 200",
        "id = 7",
        "id == 7 and id <> 8 and id != 9",
        "city = 'Ulm'",
        'city IN ("Ulm", "Bonn")',
        "city in ('Ulm')",
        "city not in ['Bonn']",
        "'vip' in customer.tags",
        "'l' in city",
        "customer.name = 'Ada'",
        "customer['name'] = 'Ada' and customer.tags[1] = 'vip'",
        "gone IS NULL and missing is null and customer.missing.deeper is null",
        "city is not null",
        "paid",
        "paid is true",
        "not (amount < 100 or city = 'Bonn')",
        "id > -1",
        'note = "it\'s == 5 and <> 6"',
        "null_like = 'null'",
        "missing > 1 or id = 7",
        "  id = 7\n",
    ],
)
def test_wanted(text: str) -> None:
    assert condition(text)(ORDER)


@pytest.mark.parametrize(
    "text",
    [
        "amount < 100",
        "missing > 1",
        "not missing > 1",
        "missing = 1 and id = 7",
        "missing <> 1",
        "gone = null",
        "id > 'a'",
        "paid > 0",
        "paid = 1",
        "id in (True, 8)",
        "missing in (1, 2)",
        "id",
        "city.name = 'x'",
        "customer.tags[9] = 'vip'",
        "paid is false",
        "amount > 100 and city = 'Bonn'",
    ],
)
def test_not_wanted(text: str) -> None:
    assert not condition(text)(ORDER)


@pytest.mark.parametrize("value", [None, 5, "text", [1, 2]])
def test_payloads_without_fields_are_not_wanted(value: Any) -> None:
    assert not condition("id = 1")(value)


@pytest.mark.parametrize(
    ("text", "column", "length"),
    [
        ("id = ", 6, 1),
        ("id = 1 and f(2)", 12, 4),
        ("id = 1 and city == __import__('os')", 20, 16),
        ("id = 1 and other + 1 > 2", 12, 9),
        ("id is 5", 7, 1),
        ("größe = 1 and lambda: 1", 15, 1),
        ("", 1, 1),
    ],
)
def test_what_is_no_condition_is_told_with_its_place(text: str, column: int, length: int) -> None:
    with pytest.raises(InputError) as caught:
        condition(text)
    assert caught.value.code == "bad-condition"
    assert caught.value.at is not None
    assert (caught.value.at.column, caught.value.at.length) == (column, length)
    assert caught.value.at.text == text


@pytest.mark.parametrize("text", ["(" * 500, "not " * 5000 + "a", "a = 1\x00", "a.b(c)", "{}", "x := 1", "'"])
def test_nothing_else_is_raised(text: str) -> None:
    with pytest.raises(InputError):
        condition(text)
