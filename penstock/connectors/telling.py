"""Failures on their way through Spark: raised by a worker in words, and understood again by the driver."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

from penstock import errors
from penstock.errors import DataError, PenstockError

_MARKER = "PENSTOCK-ERROR "
_LOSS = "reset the pipeline to go on from what is left; what is gone cannot be read again"


class Told(Exception):
    """An error of ours that a worker tells the driver."""

    def __init__(self, failure: PenstockError) -> None:
        told = {"kind": type(failure).__name__, "code": failure.code, "message": failure.message}
        super().__init__(_MARKER + json.dumps({**told, "hint": failure.hint}))


def heard(failure: BaseException) -> PenstockError | None:
    """The error that a worker has told, if any."""
    _, found, rest = text_of(failure).partition(_MARKER)
    if not found:
        return None
    told = json.JSONDecoder().raw_decode(rest)[0]
    kind: type[PenstockError] = getattr(errors, told["kind"])
    return kind(told["code"], told["message"], hint=told["hint"])


def text_of(failure: BaseException) -> str:
    """All that a failure says, its causes and Spark's trace included."""
    parts: list[str] = []
    seen: BaseException | None = failure
    while seen is not None and len(parts) < 30:
        parts += [str(seen), str(getattr(seen, "_stackTrace", None) or "")]
        seen = getattr(seen, "_cause", None) or seen.__cause__
    return "\n".join(parts)


def lost(message: str) -> DataError:
    """The error for messages that are gone before they were read."""
    return DataError("data-loss", message, hint=_LOSS)


@contextmanager
def telling() -> Iterator[None]:
    """Errors of ours, raised so that the driver understands them."""
    try:
        yield
    except PenstockError as failure:
        raise Told(failure) from None
