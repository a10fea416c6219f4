"""Values as payloads, and lines of text as messages: JSON, CSV, MessagePack, raw bytes."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from typing import Any

from penstock.errors import InputError, SetupError, did_you_mean

Payload = Any
"""Bytes and text go as they are; other values by the producer's codec."""
AS_THEY_ARE = (str, bytes, bytearray, memoryview)
Codec = Callable[[Any], bytes]


def codec(format: str) -> Codec:
    """What makes a payload of a value."""
    try:
        return _CODECS[format]
    except KeyError:
        hint = did_you_mean(format, _CODECS)
        raise InputError("unknown-format", f"messages have no format '{format}'", hint=hint) from None


def as_bytes(value: Payload, encode: Codec) -> bytes:
    """A payload that is bytes or text, as it is; else encoded."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    return bytes(value) if isinstance(value, bytearray | memoryview) else encode(value)


def _json(value: Any) -> bytes:
    try:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError) as failure:
        raise InputError("bad-payload", f"not a value of JSON: {failure}") from None


def _csv(value: Any) -> bytes:
    fields = value.values() if isinstance(value, dict) else value
    if not isinstance(value, dict | list | tuple):
        raise InputError("bad-payload", f"a line of CSV is a list or a dict, not a {type(value).__name__}")
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(fields)
    return line.getvalue().encode()


def _msgpack(value: Any) -> bytes:
    try:
        import msgpack
    except ImportError:
        raise SetupError(
            "missing-package", "MessagePack needs the package msgpack", hint="pip install 'penstock[msgpack]'"
        ) from None
    try:
        packed: bytes = msgpack.packb(value, datetime=True)
    except (TypeError, ValueError, OverflowError) as failure:
        raise InputError("bad-payload", f"not a value of MessagePack: {failure}") from None
    return packed


def _raw(value: Any) -> bytes:
    raise InputError("bad-payload", f"expected bytes or text, not a {type(value).__name__}")


_CODECS: dict[str, Codec] = {"json": _json, "csv": _csv, "msgpack": _msgpack, "raw": _raw}
