"""Chunks of JSON Lines -> rows: by their shapes, else by DuckDB, and what they leave by the reference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from penstock.formats.lines.decoding import Bad, Decoded, with_newlines
from penstock.formats.lines.json_extract import Extractor
from penstock.formats.lines.json_line import decode_line, has_others
from penstock.formats.lines.json_shapes import Lines, Shapes
from penstock.formats.lines.kinds import Field, Mismatch

_FEW = 50
"""Lines that the reference decodes before DuckDB has begun."""


class JsonRows:
    """Decodes chunks of JSON Lines. Records are lines."""

    def __init__(self, fields: Sequence[Field], zone: str, known: frozenset[str] | None = None) -> None:
        """Records with other keys than those that are `known` are told as strange; None for any keys."""
        self._fields = fields
        self._zone = zone
        self._known = known
        self._shapes = Shapes(fields, zone, known)
        self._extractor = Extractor(fields, zone)

    def decode(self, data: bytes, detail: Any = None) -> Decoded:
        lines = Lines(with_newlines(data))
        decoded = Decoded()
        left = others = self._shapes.decode(lines, decoded)
        if len(left) > _FEW:
            left = self._extract(lines.data, lines.starts, left, decoded)
        self._exactly(lines.data, lines.starts, left, decoded)
        if self._known is not None and not decoded.strange:
            bad = {bad.record for bad in decoded.bad}
            decoded.strange = any(
                has_others(lines.line(number), self._known) for number in others.tolist() if number not in bad
            )
        return decoded

    def _extract(self, data: bytes, starts: np.ndarray, lines: np.ndarray, decoded: Decoded) -> np.ndarray:
        table, kept, left = self._extractor.decode(data, starts, lines)
        if table.num_rows:
            decoded.parts.append((table, kept))
        return left

    def _exactly(self, data: bytes, starts: np.ndarray, lines: np.ndarray, decoded: Decoded) -> None:
        rows: list[list[Any]] = []
        numbers: list[int] = []
        for number in lines.tolist():
            line = data[starts[number] : starts[number + 1]]
            try:
                found = decode_line(line, self._fields, self._zone)
            except Mismatch as failure:
                decoded.bad.append(Bad.of(number, line, failure))
                continue
            rows += found
            numbers += [number] * len(found)
        decoded.add(self._fields, rows, numbers)
