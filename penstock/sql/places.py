"""Where something stands in a statement, without the secrets that stand beside it."""

from __future__ import annotations

from dataclasses import replace

from penstock.config import concealed_pairs
from penstock.errors import Place


def place_of(source: str, text: str, start: int, end: int) -> Place:
    """The place of `text[start:end]`."""
    place = Place.of(source, text, start, end)
    return replace(place, text=concealed_pairs(place.text))
