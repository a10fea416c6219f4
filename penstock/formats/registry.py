"""Which format a name, an alias or a file's ending stands for."""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from penstock.errors import OptionError, SetupError, did_you_mean
from penstock.formats.base import Format

GROUP = "penstock.formats"


@cache
def all_formats() -> dict[str, type[Format]]:
    """Every installed format by its name."""
    points = sorted(entry_points(group=GROUP), key=lambda point: point.name)
    return {kind.name: kind for kind in map(_load, points)}


def _load(point: EntryPoint) -> type[Format]:
    try:
        kind = point.load()
    except Exception as failure:
        raise SetupError(
            "broken-format",
            f"format '{point.name}' ({point.value}) does not load: {failure}",
            hint=f"mend or uninstall the package {point.dist.name if point.dist else 'that brings it'}",
        ) from failure
    if not (isinstance(kind, type) and issubclass(kind, Format)):
        raise SetupError(
            "broken-format",
            f"format '{point.name}' ({point.value}) is not a penstock.formats.base.Format",
        )
    return kind


def find(name: str) -> tuple[type[Format], dict[str, Any]]:
    """The format of this name, alias or file ending, and the options that the word implies."""
    word = name.lower().removeprefix(".")
    spellings: dict[str, type[Format]] = {}
    for kind in all_formats().values():
        for spelling in (kind.name, *kind.aliases, *kind.extensions):
            spellings.setdefault(spelling, kind)
    if word not in spellings:
        raise OptionError(
            "unknown-format",
            f"unknown format '{name}'",
            hint=did_you_mean(
                word, {*all_formats(), *(a for k in all_formats().values() for a in k.aliases)}
            ),
        )
    return spellings[word], dict(spellings[word].implied.get(word, {}))
