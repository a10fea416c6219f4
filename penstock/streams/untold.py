"""Failures that nobody was told of: whose receipt was not asked, and which no `flush` raised."""

from __future__ import annotations

from typing import Generic, TypeVar

from penstock.errors import PenstockError

Receipt = TypeVar("Receipt")

KEPT = 10_000
"""Receipts that are known by themselves; a program that never looks is to fail on, not to fill the memory."""


class Untold(Generic[Receipt]):
    def __init__(self) -> None:
        self._failures: dict[Receipt, PenstockError] = {}
        self._beyond: PenstockError | None = None
        """The first of all those that are not known by themselves."""

    def keep(self, receipt: Receipt, failure: PenstockError) -> None:
        if len(self._failures) < KEPT:
            self._failures[receipt] = failure
        else:
            self._beyond = self._beyond or failure

    def told(self, receipt: Receipt) -> None:
        """Somebody knows what has become of this one."""
        self._failures.pop(receipt, None)

    def take(self) -> PenstockError | None:
        """The first of them; all of them are told by it."""
        failures, self._failures = self._failures, {}
        beyond, self._beyond = self._beyond, None
        return next(iter(failures.values()), beyond)
