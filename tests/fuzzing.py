"""Texts that are nearly right: mutations of a corpus, for any parser."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from random import Random

from hypothesis import strategies as st

EXAMPLES = int(os.environ.get("PENSTOCK_FUZZ_EXAMPLES", "2000"))
"""How many mutations each kind gets; `make fuzz` asks for many more."""

_PIECES = re.compile(r"\w+|\s+|[^\w\s]")
_CHARACTERS = "'\"`()[]{}<>,;:.=-+*/\\|&!?@#$%^~_ \t\r\n\0aZ09\u00e9\u20ac\ud800\U0001f600\ufeff\u00a0"


def mutations(corpus: Sequence[str]) -> st.SearchStrategy[str]:
    """A text of `corpus` with a few pieces or characters gone, doubled, swapped or replaced."""
    texts = list(corpus)
    return st.builds(lambda seed: mutate(texts, Random(seed)), st.integers(0, 2**64))


def mutate(corpus: Sequence[str], random: Random) -> str:
    text = random.choice(corpus)
    for _ in range(random.choice((1, 1, 1, 2, 3, 6))):
        change = random.choice((_change_pieces, _change_characters))
        text = change(text, corpus, random)
    return text


def _change_pieces(text: str, corpus: Sequence[str], random: Random) -> str:
    pieces = _PIECES.findall(text)
    if not pieces:
        return random.choice(corpus)
    at, other = random.randrange(len(pieces)), random.randrange(len(pieces))
    match random.randrange(6):
        case 0:
            del pieces[at]
        case 1:
            pieces.insert(at, pieces[at])
        case 2:
            pieces[at], pieces[other] = pieces[other], pieces[at]
        case 3:
            pieces[at] = random.choice(_PIECES.findall(random.choice(corpus)))
        case 4:
            pieces.insert(at, random.choice(_PIECES.findall(random.choice(corpus))))
        case _:
            del pieces[min(at, other) : max(at, other)]
    return "".join(pieces)


def _change_characters(text: str, corpus: Sequence[str], random: Random) -> str:
    at = random.randrange(len(text) + 1)
    match random.randrange(4):
        case 0:
            return text[:at] + text[at + 1 :]
        case 1:
            return text[:at] + random.choice(_CHARACTERS) + text[at:]
        case 2:
            return text[:at] + random.choice(_CHARACTERS) + text[at + 1 :]
        case _:
            return text[:at]
