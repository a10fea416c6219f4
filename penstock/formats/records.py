"""Bad records: what they are called, and how a worker tells the driver of one. Light to import."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

REJECTED = "_rejected"
METADATA = "_metadata"
REJECTS = "payload STRING, error STRING, file STRING, line BIGINT"
"""What `rejects` gives."""
MESSAGE_REJECTS = "payload STRING, encoding STRING, error STRING"
"""What `decode_rejects` gives, before the columns that are carried."""
NOTHING = "there is nothing in the message"
PAYLOAD_LIMIT = 1000
"""Characters of a bad record that an error shows."""

MARKER = "PENSTOCK-BAD-RECORD "


UNKNOWN_MARKER = "PENSTOCK-UNKNOWN-FIELD"


class UnknownField(Exception):
    """A record may have fields that the columns lack; raised on a worker that was told to watch for them."""

    def __init__(self) -> None:
        super().__init__(UNKNOWN_MARKER)


class BadRecord(Exception):
    """A record that cannot be read; raised on a worker, and found again by `bad_record`."""

    def __init__(self, payload: str | None, error: str, file: str | None, line: int | None) -> None:
        cut = payload[:PAYLOAD_LIMIT] if payload is not None else None
        record = {"payload": cut, "error": error, "file": file, "line": line}
        super().__init__(MARKER + json.dumps(record))


def payload_of(message: bytes | None) -> tuple[str | None, str]:
    """A message as text, and how to get its bytes back: `text` (UTF-8) or `base64`."""
    if message is None:
        return None, "text"
    try:
        return message.decode("utf-8"), "text"
    except UnicodeDecodeError:
        return base64.b64encode(message).decode("ascii"), "base64"


def place_of(values: Mapping[str, Any]) -> str:
    """Where a message stands, by the hidden columns that tell it: `partition 0, offset 7`."""
    return ", ".join(f"{name.lstrip('_')} {value}" for name, value in values.items()) or "a message"


def bad_record(message: str) -> dict[str, Any] | None:
    """The bad record (payload, error, file, line) that a failure of Spark tells of, if it does."""
    _, found, rest = message.partition(MARKER)
    if not found:
        return None
    try:
        record = json.JSONDecoder().raw_decode(rest)[0]
    except ValueError:
        return None
    return record if isinstance(record, dict) else None
