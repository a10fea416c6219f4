"""Arrays of text -> arrays of values, for the spellings that programs write.

What is not decided here is marked, and left to the reference (`kinds.py`); what is decided here is decided
as there. Runs on workers only.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.formats.lines.kinds import BITS, Kind

Mask = np.ndarray
"""One boolean for each row."""

_DIGIT = np.zeros(256, bool)
_DIGIT[48:58] = True
_INTEGER = _DIGIT.copy()
_INTEGER[ord("-")] = True
_DECIMAL = _INTEGER.copy()
_DECIMAL[ord(".")] = True
_FLOAT = _DECIMAL.copy()
_FLOAT[[ord("e"), ord("E"), ord("+")]] = True
_ALLOWED = {**dict.fromkeys(BITS, _INTEGER), "FLOAT": _FLOAT, "DOUBLE": _FLOAT, "DECIMAL": _DECIMAL}

_FEW = 16
_JSON_NUMBER = r"^(0|-?[1-9][0-9]*|-?(0|[1-9][0-9]*)(\.[0-9]+([eE][+-]?[0-9]+)?|[eE][+-]?[0-9]+))$"
"""Without `-0`, which is a whole number, and so not a negative zero."""
_DATE = r"^\d{4}-\d\d-\d\d$"
_LOCAL_TIME = r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{1,6})?$"
_ZONED_TIME = r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-](0\d|1[0-7]):[0-5]\d)$"


def decide(
    texts: pa.StringArray, kind: Kind, zone: str, *, json: bool = False
) -> tuple[pa.Array, Mask | None]:
    """The values of `texts`, and which of them are undecided; None when none is.

    With `json` the texts are bare values of JSON, whose numbers are spelled in fewer ways.
    """
    if kind.text:
        if kind.limit is None:
            return texts, None
        long = truth(pc.greater(pc.utf8_length(texts), kind.limit))
        return texts, long if long.any() else None
    if kind.name in _ALLOWED:
        return _numbers(texts, kind, json)
    if kind.name == "BOOLEAN":
        return _booleans(texts if json else pc.ascii_lower(texts))
    return _instants(texts, kind, zone)


def spans(texts: pa.StringArray) -> tuple[np.ndarray, np.ndarray]:
    """The bytes under an array of text, and where each text begins; one more for the end."""
    _, offsets, data = texts.buffers()
    starts = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    return np.frombuffer(data, np.uint8) if data else np.empty(0, np.uint8), starts


def truth(condition: pa.Array) -> Mask:
    """A boolean array as a mask; null is false."""
    return np.asarray(condition.fill_null(False).to_numpy(zero_copy_only=False), bool)


def _numbers(texts: pa.StringArray, kind: Kind, json: bool) -> tuple[pa.Array, Mask | None]:
    undecided = _odd_bytes(texts, _ALLOWED[kind.name])
    if json:
        undecided = either(undecided, _not_json(texts))
    return _cast(texts, kind.arrow(), undecided)


def not_json_number(texts: pa.StringArray) -> Mask | None:
    """Which texts may be no number of JSON; None when all are."""
    data, starts = spans(texts)
    if _all_between(data[starts[0] : starts[-1]], "0", "9"):
        empty = np.diff(starts) == 0
        return either(empty if empty.any() else None, _not_json(texts))
    return _numbers(texts, Kind("DOUBLE"), json=True)[1]


def _all_between(data: np.ndarray, low: str, high: str) -> bool:
    """Whether all bytes are in a range; much faster than looking each of them up."""
    return not len(data) or bool((data - np.uint8(ord(low))).max() <= ord(high) - ord(low))


def either(one: Mask | None, other: Mask | None) -> Mask | None:
    return one if other is None else other if one is None else one | other


def _odd_bytes(texts: pa.StringArray, allowed: np.ndarray) -> Mask | None:
    """Which texts have other bytes than these; None when none has."""
    data, starts = spans(texts)
    used = data[starts[0] : starts[-1]]
    # A slash passes here, but no cast takes it.
    if allowed is not _INTEGER and _all_between(used, "-", "9"):
        return None
    if _all_between(used, "0", "9"):
        return None
    fits = allowed[used]
    if fits.all():
        return None
    odd = np.zeros(len(texts), bool)
    odd[np.searchsorted(starts, np.flatnonzero(~fits) + starts[0], "right") - 1] = True
    return odd


def _not_json(texts: pa.StringArray) -> Mask | None:
    """Numbers that others take and JSON does not: `007`, `.5`, `1.`, `+1`; None when there are none."""
    data, starts = spans(texts)
    used = data[starts[0] : starts[-1]]
    if not len(used):
        return None
    if not _all_between(used, "-", "9"):
        rows = np.arange(len(texts))
    else:
        # Plain ones begin with a digit, not zero, and end with one. Behind the last text stands a zero.
        ends = np.append(used, np.uint8(ord("0")))
        first, last = ends[starts[:-1] - starts[0]], ends[starts[1:] - 1 - starts[0]]
        rows = np.flatnonzero((first <= ord("0")) | (last < ord("0")))
    if not len(rows):
        return None
    some = texts.take(pa.array(rows)) if len(rows) < len(texts) else texts
    wrong = truth(pc.invert(pc.match_substring_regex(some, _JSON_NUMBER)))
    if not wrong.any():
        return None
    mask = np.zeros(len(texts), bool)
    mask[rows[wrong]] = True
    return mask


def _cast(texts: pa.StringArray, target: pa.DataType, undecided: Mask | None) -> tuple[pa.Array, Mask | None]:
    """Casts what is decided; where that fails, the undecided are found by halving."""
    if undecided is not None:
        texts = pc.if_else(pa.array(undecided), None, texts)
    try:
        return texts.cast(target), undecided
    except pa.ArrowInvalid:
        pass
    if undecided is None:
        undecided = np.zeros(len(texts), bool)
    if len(texts) <= _FEW:
        return pa.nulls(len(texts), target), undecided | truth(pc.is_valid(texts))
    half = len(texts) // 2
    parts = [_cast(texts[:half], target, undecided[:half]), _cast(texts[half:], target, undecided[half:])]
    masks = [np.zeros(len(array), bool) if mask is None else mask for array, mask in parts]
    return pa.concat_arrays([array for array, _ in parts]), np.concatenate(masks)


def _booleans(texts: pa.StringArray) -> tuple[pa.Array, Mask | None]:
    true = pc.equal(texts, "true")
    undecided = ~truth(pc.or_(true, pc.equal(texts, "false"))) & truth(pc.is_valid(texts))
    return true, undecided if undecided.any() else None


def _instants(texts: pa.StringArray, kind: Kind, zone: str) -> tuple[pa.Array, Mask | None]:
    valid = truth(pc.is_valid(texts))
    target = kind.arrow()
    if kind.name == "DATE":
        return _cast(texts, target, valid & ~truth(pc.match_substring_regex(texts, _DATE)))
    local = truth(pc.match_substring_regex(texts, _LOCAL_TIME))
    if kind.name == "TIMESTAMP_NTZ":
        return _cast(texts, target, valid & ~local)
    if local.any() and zone != "UTC":
        # Clocks are changed, and Arrow and Java differ on what they show then.
        local[:] = False
    zoned = truth(pc.match_substring_regex(texts, _ZONED_TIME))
    if local.any():
        texts = pc.if_else(pa.array(local), pc.binary_join_element_wise(texts, "Z", ""), texts)
    return _cast(texts, target, valid & ~(zoned | local))
