"""Messages as bytes of a file or a pipe, or as an object with all that is known of each."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from typing import Any

from penstock.streams.framing import Dialect, known_format
from penstock.streams.message import Message


def decoder(
    format: str, columns: Sequence[str] | None = None, dialect: Dialect | None = None
) -> Callable[[Message], Any]:
    """What a payload says."""
    known_format(format)
    if format == "csv":
        delimiter, quote = dialect or Dialect()
        return lambda message: message.csv(columns, delimiter=delimiter, quote=quote)
    if format == "raw":
        return lambda message: as_text(message.payload)
    return (lambda message: message.json()) if format == "ndjson" else (lambda message: message.msgpack())


def framer(format: str) -> Callable[[Sequence[Message]], bytes]:
    """Payloads as they are, each ended as the format wants it: what `framing` reads back."""
    known_format(format)
    if format == "msgpack":
        return lambda messages: b"".join([message.payload for message in messages])
    return _json_lines if format == "ndjson" else _lines


def _lines(messages: Sequence[Message]) -> bytes:
    payloads = [message.payload for message in messages]
    payloads.append(b"")
    return b"\n".join(payloads)


def _json_lines(messages: Sequence[Message]) -> bytes:
    lines = _lines(messages)
    if lines.count(b"\n") == len(messages):
        return lines
    # Some are written for people; here a line is a message.
    return b"".join([(line(m.json()) if b"\n" in m.payload else m.payload) + b"\n" for m in messages])


def line(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_plain).encode()


def whole(message: Message, value: Any) -> dict[str, Any]:
    """All that is known of a message; `value` is what its payload says."""
    return {
        "stream": message.stream,
        "shard": message.shard,
        "sequence": message.sequence,
        "timestamp": message.timestamp.isoformat(),
        "key": None if message.key is None else as_text(message.key),
        "headers": [[name, as_text(content)] for name, content in message.headers],
        "payload": value,
    }


def as_text(content: bytes) -> str | dict[str, str]:
    """UTF-8, else an object that says that it is none."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(content).decode()}


def _plain(value: Any) -> Any:
    """What MessagePack has and JSON has not."""
    return as_text(value) if isinstance(value, bytes) else str(value)
