"""Dates and times as Spark reads them from text when no pattern is given."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_BLANK = "".join(map(chr, range(33)))
_DATE = r"([+-]?[0-9]{4,7})(?:-([0-9]{1,2})(?:-([0-9]{1,2}))?)?"
_WHOLE_DATE = re.compile(_DATE)
_DATE_AND_MORE = re.compile(r"([+-]?[0-9]{4,7})-([0-9]{1,2})-([0-9]{1,2})[ T].*", re.DOTALL)
_TIMESTAMP = re.compile(
    r"([+-]?[0-9]{4,6})-([0-9]{1,2})-([0-9]{1,2})"
    r"[ T]([0-9]{1,2}):([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]*))?)?\s*(\S.*)?",
    re.DOTALL,
)
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])([0-9]{1,2})(?::?([0-9]{2})(?::?([0-9]{2}))?)?")
_COLON_OFFSET = re.compile(r"([+-])([0-9]{1,2}):([0-9]{1,2})")
_DAY = 86_400_000_000


def parse_date(text: str) -> int | None:
    """Days since 1970-01-01, or None."""
    text = text.strip(_BLANK)
    match = _WHOLE_DATE.fullmatch(text) or _DATE_AND_MORE.fullmatch(text)
    if match is None:
        return None
    return _days(int(match[1]), int(match[2] or 1), int(match[3] or 1))


def parse_timestamp(text: str, zone: str | None) -> int | None:
    """Microseconds since 1970-01-01 UTC, or None; without a zone, of a local time that names none either."""
    text = text.strip(_BLANK)
    match = _WHOLE_DATE.fullmatch(text)
    if match is not None:
        days = (
            _days(int(match[1]), int(match[2] or 1), int(match[3] or 1))
            if len(match[1].lstrip("+-")) < 7
            else None
        )
        return None if days is None else _local(days * _DAY, zone)
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        return None
    days = _days(int(match[1]), int(match[2]), int(match[3]))
    hour, minute, second = int(match[4]), int(match[5]), int(match[6] or 0)
    if days is None or hour > 23 or minute > 59 or second > 59:
        return None
    micros = int((match[7] or "")[:6].ljust(6, "0"))
    at = days * _DAY + ((hour * 60 + minute) * 60 + second) * 1_000_000 + micros
    if not match[8]:
        return _local(at, zone)
    if zone is None or match[6] is None:
        return None
    return _local(at, match[8].strip(_BLANK))


def _days(year: int, month: int, day: int) -> int | None:
    """Days since 1970-01-01 in the Gregorian calendar of all times, which Python's dates do not span."""
    if not 1 <= month <= 12 or not 1 <= day <= 31:
        return None
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if day > (31, 29 if leap else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)[month - 1]:
        return None
    y = year - (month <= 2)
    era, of_era = divmod(y, 400)
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


def _local(micros: int, zone: str | None) -> int | None:
    """The instant at which clocks in the zone show these microseconds."""
    if zone is None or zone in ("UTC", "Z", "GMT"):
        return micros
    found = _zone(zone)
    if found is None:
        return None
    if isinstance(found, int):
        return micros - found
    try:
        wall = datetime(1970, 1, 1) + timedelta(microseconds=micros)
    except OverflowError:
        return None
    # In a gap of the clock Java moves on by its length; so does fold=0, seen from the offset before it.
    offset = wall.replace(tzinfo=found, fold=0).utcoffset() or timedelta()
    return micros - offset // timedelta(microseconds=1)


@lru_cache(maxsize=64)
def _zone(name: str) -> tzinfo | int | None:
    """A zone by name, or its fixed offset in microseconds."""
    offset = _COLON_OFFSET.fullmatch(name) or _OFFSET.fullmatch(name)
    if offset is not None:
        hours, minutes, *rest = (int(part or 0) for part in offset.groups()[1:])
        seconds = rest[0] if rest else 0
        total = hours * 3600 + minutes * 60 + seconds
        if minutes > 59 or seconds > 59 or total > 18 * 3600:
            return None
        return total * 1_000_000 * (-1 if offset[1] == "-" else 1)
    if name in ("UTC", "Z", "GMT", "UT"):
        return timezone.utc
    try:
        return ZoneInfo(name) if "/" in name else None
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None
