"""Where a source of messages begins: `earliest`, `latest`, a time, or offsets of partitions."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Literal

_WORDS = {
    "earliest": "earliest", "earliest-offset": "earliest", "smallest": "earliest", "beginning": "earliest",
    "latest": "latest", "latest-offset": "latest", "largest": "latest", "end": "latest",
}  # fmt: skip
_EXPECTED = "expected earliest, latest, a time such as '2024-01-31T12:00:00Z', or offsets as JSON"
EARLIEST, LATEST = -2, -1
"""What stands for an offset that is not known yet, as in Spark and Kafka."""


@dataclass(frozen=True)
class Start:
    """One of the four ways to say it."""

    kind: Literal["earliest", "latest", "time", "offsets"]
    time: int = 0
    """Milliseconds since 1970."""
    offsets: dict[str, dict[int, int]] = field(default_factory=dict)
    """By topic and partition; a partition that is not there begins at the earliest."""

    def __str__(self) -> str:
        if self.kind == "time":
            return datetime.fromtimestamp(self.time / 1000, timezone.utc).isoformat()
        return json.dumps(self.offsets) if self.kind == "offsets" else self.kind


def parse_start(value: Any, timestamp: int | None, topics: Sequence[str]) -> Start | None:
    """Understands what an option says: `timestamp` goes with `'timestamp'`, `topics` with bare offsets."""
    if value is None or value == "timestamp":
        if value and timestamp is None:
            raise ValueError("start 'timestamp' needs start_timestamp")
        return None if timestamp is None else Start("time", timestamp)
    if isinstance(value, dict):
        return Start("offsets", offsets=_offsets(value, topics))
    if isinstance(value, int):
        return Start("time", value)
    text = str(value).strip()
    if text.lower() in _WORDS:
        return Start("earliest" if _WORDS[text.lower()] == "earliest" else "latest")
    if text.startswith("{"):
        try:
            return Start("offsets", offsets=_offsets(json.loads(text), topics))
        except json.JSONDecodeError as failure:
            raise ValueError(f"{_EXPECTED}; not JSON: {failure}") from None
    if text.isdecimal() and len(text) > 8:
        return Start("time", int(text))
    try:
        time = datetime.fromisoformat(re.sub("[zZ]$", "+00:00", text))
    except ValueError:
        raise ValueError(_EXPECTED) from None
    time = time if time.tzinfo else time.replace(tzinfo=timezone.utc)
    return Start("time", int(time.timestamp() * 1000))


def _offsets(value: dict[str, Any], topics: Sequence[str]) -> dict[str, dict[int, int]]:
    if not all(isinstance(v, dict) for v in value.values()):
        if len(topics) != 1:
            raise ValueError('expected offsets by topic: {"topic": {"0": 42}}')
        value = {topics[0]: value}
    try:
        found = {t: {int(p): int(o) for p, o in of.items()} for t, of in value.items()}
    except (TypeError, ValueError, AttributeError):
        raise ValueError('expected whole numbers: {"0": 42}') from None
    unknown = set(found) - set(topics)
    if topics and unknown:
        raise ValueError(f"offsets of topic '{min(unknown)}', which is not read")
    if any(offset < EARLIEST for of in found.values() for offset in of.values()):
        raise ValueError("an offset is 0 or more, -2 for the earliest, or -1 for the latest")
    return found
