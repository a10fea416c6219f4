"""Lines of JSON that DuckDB and Spark read differently, found by their bytes.

DuckDB takes trailing commas, more words for numbers, and of doubled keys the first one. A line that is
found here need not be odd; one that is odd is found.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from penstock.formats.lines.bulk import Mask
from penstock.formats.lines.decoding import is_utf8

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint64]

_BLANK = np.zeros(256, bool)
_BLANK[[9, 10, 13, 32]] = True
_DIGIT = np.zeros(256, bool)
_DIGIT[48:58] = True
_QUOTE, _COLON, _COMMA, _BACKSLASH = ord('"'), ord(":"), ord(","), ord("\\")
_SUSPECT = _BLANK.copy()
_SUSPECT[[ord(c) for c in "nNiI+-"]] = True
_PADDING = b" " * 8
_PAD = len(_PADDING)


def odd_lines(data: bytes, starts: Ints, keys: Sequence[bytes]) -> tuple[Mask, Mask]:
    """Lines that are no plain object, not UTF-8, or mean two things; and those where keys may be doubled."""
    raw = np.frombuffer(b"".join((_PADDING, data, _PADDING)), np.uint8)
    odd = raw[starts[:-1] + _PAD] != ord("{")
    _mark(odd, _trailing_commas(raw), starts)
    colons = np.flatnonzero(raw == _COLON)
    before = raw[colons - 1]
    blank = _BLANK[before]
    if blank.any():
        ends = colons - 1 - blank
        _mark(odd, colons[blank & _BLANK[raw[ends]]], starts)
        quotes = ends[raw[ends] == _QUOTE]
    else:
        quotes = colons[before == _QUOTE] - 1
    _mark(odd, _odd_values(raw, quotes), starts)
    if b"\\u00" in data:
        # A key that is spelled with escapes is not seen by its bytes.
        _mark(odd, _ascii_escapes(raw), starts)
    if not data.isascii():
        odd |= _not_utf8(data, starts)
    return odd, _doubled(raw, quotes, starts, keys)


def _mark(mask: Mask, positions: Ints, starts: Ints) -> None:
    """Marks the lines of positions."""
    if len(positions):
        mask[np.searchsorted(starts, positions - _PAD, "right") - 1] = True


def _before(raw: Bytes, positions: Ints) -> Bytes:
    """The byte before, one blank left out."""
    before = raw[positions - 1]
    return np.where(_BLANK[before], raw[positions - 2], before)


def _trailing_commas(raw: Bytes) -> Ints:
    closing = np.flatnonzero((raw == ord("}")) | (raw == ord("]")))
    before = _before(raw, closing)
    found: Ints = closing[(before == _COMMA) | _BLANK[before]]
    return found


def _odd_values(raw: Bytes, quotes: Ints) -> Ints:
    """Keys whose values begin as a word for a number may, or behind many blanks."""
    at = quotes + 2 + (raw[quotes + 1] != _COLON)
    first = raw[at]
    blank = _BLANK[first]
    if blank.any():
        at = at + blank
        first = raw[at]
    suspects = np.flatnonzero(_SUSPECT[first])
    if not len(suspects):
        return suspects
    first, second = first[suspects], raw[at[suspects] + 1]
    fine = ((first == ord("n")) & (second == ord("u"))) | ((first == ord("-")) & _DIGIT[second])
    found: Ints = quotes[suspects[~fine]]
    return found


def _doubled(raw: Bytes, quotes: Ints, starts: Ints, keys: Sequence[bytes]) -> Mask:
    """Lines in which one of `keys` stands twice, be it in objects within the object."""
    doubled = np.zeros(len(starts) - 1, bool)
    # Eight bytes at once: a key's last ones tell it from most others.
    words = np.ndarray((len(raw) - 7,), "<u8", raw.data, strides=(1,))
    last = words[quotes - 8]
    for key in keys:
        text = b'"' + key
        found = _ending(last, quotes, text[-8:])
        for back in range(8, len(text), 8):
            found = _ending(words[np.maximum(found - 8 - back, 0)], found, text[-8 - back : -back])
        if len(found) == len(doubled) and _one_each(found - _PAD, starts):
            continue
        lines = np.searchsorted(starts, found - _PAD, "right") - 1
        doubled[lines[1:][lines[1:] == lines[:-1]]] = True
    return doubled


def _ending(words: Words, positions: Ints, tail: bytes) -> Ints:
    """The positions whose eight bytes end with `tail`."""
    mask = np.uint64(~((1 << (64 - 8 * len(tail))) - 1) & 0xFFFFFFFFFFFFFFFF)
    found: Ints = positions[(words & mask) == np.uint64(int.from_bytes(tail.rjust(8, b"\0"), "little"))]
    return found


def _one_each(positions: Ints, starts: Ints) -> bool:
    return bool((positions >= starts[:-1]).all() and (positions < starts[1:]).all())


def _ascii_escapes(raw: Bytes) -> Ints:
    at = np.flatnonzero(raw == _BACKSLASH)
    plain = (raw[at + 1] == ord("u")) & (raw[at + 2] == ord("0")) & (raw[at + 3] == ord("0"))
    found: Ints = at[plain & (raw[at + 4] >= ord("2")) & (raw[at + 4] <= ord("7"))]
    return found


def _not_utf8(data: bytes, starts: Ints) -> Mask:
    if is_utf8(data):
        return np.zeros(len(starts) - 1, bool)
    return np.array([not is_utf8(data[i:j]) for i, j in pairwise(starts.tolist())])
