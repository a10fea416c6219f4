"""How much of a source a query reads, and how much it leaves out."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Scanned:
    """How much of a source is read; a part of a file that its own statistics leave out still counts."""

    source: str
    files: int
    files_skipped: int
    bytes: int
    bytes_skipped: int
    columns: tuple[str, ...]
    filters: str
    """Conditions that reach the files, in the words of what reads them."""
