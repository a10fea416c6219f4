"""Files whose folders `key=value` tell that a statement wants none of their rows."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import unquote

_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_NUMBER, _DATE = re.compile(r"[+-]?\d+"), re.compile(r"\d{4}-\d\d-\d\d")


def left(files: list[str], request: Any) -> list[str]:
    """The files less those that the request's filters leave out for certain."""
    types = {c.name.lower(): c.type.upper() for c in request.partitions}
    filters = [(name.lower(), *rest) for name, *rest in request.filters if name.lower() in types]
    return [file for file in files if _may_match(_texts(file, request.base), types, filters)]


def _texts(file: str, base: str | None) -> dict[str, str]:
    folders = file.removeprefix(base or "").split("/")[:-1]
    pairs = (folder.partition("=") for folder in folders if "=" in folder)
    return {key.lower(): unquote(text) for key, _, text in pairs}


def _may_match(texts: Mapping[str, str], types: Mapping[str, str], filters: list[Any]) -> bool:
    return all(
        name not in texts or _may_hold(texts[name], types[name], comparison, value)
        for name, comparison, value in filters
    )


def _may_hold(text: str, type: str, comparison: str, value: Any) -> bool:
    values = value if comparison == "in" else (value,)
    compare = _COMPARISONS.get("=" if comparison == "in" else comparison)
    if compare is None:
        return True
    if type in ("INT", "BIGINT") and _NUMBER.fullmatch(text) and all(_is_whole(v) for v in values):
        return any(compare(int(text), v) for v in values)
    strings = all(isinstance(v, str) for v in values)
    if type == "DATE" and strings and all(_DATE.fullmatch(v) for v in (text, *values)):
        return any(compare(text, v) for v in values)
    if type == "STRING" and strings and comparison in ("=", "in"):
        return any(compare(text, v) for v in values)
    return True


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
