"""Statements that the tests of the language share."""

from __future__ import annotations

from pathlib import Path

_TEXTS = Path(__file__).parent / "texts"

SEEDS = {path.stem: path.read_text(encoding="utf-8") for path in sorted((_TEXTS / "seeds").glob("*.sql"))}
"""Statements out of the documents that Penstock is made for, word for word."""

STATEMENTS = (_TEXTS / "statements.txt").read_text(encoding="utf-8").splitlines()
"""One of each of our own."""

SELECTS = (_TEXTS / "selects.txt").read_text(encoding="utf-8").splitlines()
"""What Spark can do inside a SELECT."""

EVERYTHING = [*SEEDS.values(), *STATEMENTS, *SELECTS]

CASES = [path.read_text(encoding="utf-8") for path in sorted((_TEXTS.parent / "cases").glob("*.sql"))]
"""Those that are also run."""
