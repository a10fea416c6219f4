"""Moments as people write them, and as a timeline names them: `20240131120000000`, to the millisecond."""

from __future__ import annotations

import re
from datetime import datetime, timezone

_INSTANT = re.compile(r"\d{14}(\d{3})?")


def parse_moment(value: str | int) -> str | datetime:
    """An instant as it is, or a time; one without a zone is in UTC."""
    text = str(value).strip()
    if _INSTANT.fullmatch(text):
        return text
    try:
        time = datetime.fromisoformat(re.sub(r"[zZ]$", "+00:00", text))
    except ValueError:
        raise ValueError(
            "expected a time such as '2024-01-31T12:00:00Z', or an instant of 14 or 17 digits"
        ) from None
    return time if time.tzinfo else time.replace(tzinfo=timezone.utc)


def as_instant(value: str | int, *, utc: bool) -> str:
    """The instant of a moment, in a timeline that goes by UTC or by the time of this machine."""
    moment = parse_moment(value)
    if isinstance(moment, str):
        # One that is told to the second means all of that second.
        return moment.ljust(17, "9")
    local = moment.astimezone(timezone.utc if utc else None)
    return f"{local:%Y%m%d%H%M%S}{local.microsecond // 1000:03d}"
