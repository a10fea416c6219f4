"""Failures are told once, to who asks first, and take no more room the more they are."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.errors import PenstockError, RunError
from penstock.streams import Place, Producer, Receipt
from penstock.streams.base import Outgoing
from penstock.streams.codecs import codec
from penstock.streams.ledger import Ledger, Pending
from penstock.streams.untold import KEPT, Untold


class Refusing(Producer):
    """Knows at once of each message that it is refused, by its number."""

    def __init__(self) -> None:
        super().__init__("s", codec("json"))
        self.ledger = Ledger(self, 1 << 20, silent=False)

    def _put(self, outgoing: Outgoing) -> Receipt:
        receipt: Pending = self.ledger.take(len(outgoing.payload))
        if outgoing.payload == b"good":
            receipt.settle(Place("s", 0, 0))
        else:
            receipt.settle(None, RunError("refused", outgoing.payload.decode()))
        self.ledger.settled([receipt])
        return receipt

    def flush(self, timeout: float | None = None) -> None:
        self.ledger.flush(timeout)

    def close(self) -> None:
        self.flush()


def told(call: Callable[[], object]) -> str:
    with pytest.raises(PenstockError) as failed:
        call()
    return failed.value.message


def test_flush_tells_what_no_receipt_was_asked_for() -> None:
    producer = Refusing()
    asked, first, _ = (producer.send(text) for text in ("a", "b", "c"))
    producer.send("good")
    assert told(asked.result) == "a"
    assert told(producer.flush) == "b"
    producer.flush()
    assert told(first.result) == "b"
    producer.flush()


def test_who_never_looks_fills_no_memory() -> None:
    untold: Untold[int] = Untold()
    for n in range(3 * KEPT):
        untold.keep(n, RunError("refused", str(n)))
    assert len(untold._failures) == KEPT
    for n in range(KEPT):
        untold.told(n)
    failure = untold.take()
    assert failure is not None
    assert failure.message == str(KEPT), "the first that nobody was told of"
    assert untold.take() is None
