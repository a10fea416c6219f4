"""What must not be seen: which keys hold secrets, and how lines and values look without them."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise

from penstock.options import Value
from penstock.uri import mask

STARS = "***"

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_SECRET_WORD = re.compile(
    "password|passwd|pwd|passphrase|passcode|secrets?|token|credentials?|apikey|jaas|sas|authorization|cookie"
)
_SECRET_PAIR = re.compile(
    "(api|access|private|account|secret|shared|encryption|signing) key|user info|connection string"
)
_ABOUT_A_SECRET = re.compile(
    "url|uri|endpoint|path|file|location|name|type|ttl|ms|seconds|field|column|format|class|provider"
)

_REFERENCES = re.compile(r"(?:\$\{(?:env|file|secret):[^{}]*\})+")
_DEFAULT = re.compile(r"(\$\{env:\w+:-)[^{}]+\}")
_BLOCK_PAIR = re.compile(r"""(\s*(?:-\s+)*["']?([\w.\-]+)["']?\s*:(?:\s+|$))(.*)""", re.DOTALL)
_FLOW_PAIR = re.compile(
    r"""(["']?([\w.\-]+)["']?\s*[:=]\s*)("(?:[^"\\]|\\.)*"?|'[^']*'?|[^,{}\[\]\s][^,{}\[\]]*)"""
)

_revealed: set[str] = set()


@lru_cache(maxsize=1024)
def looks_secret(key: str) -> bool:
    """Whether the value of `key` is one to hide: `sasl.jaas.config`, `apiKey`, `db_password`."""
    words = [word.lower() for word in _WORD.findall(key)]
    if not words or _ABOUT_A_SECRET.fullmatch(words[-1]):
        return False
    return any(map(_SECRET_WORD.fullmatch, words)) or any(
        _SECRET_PAIR.fullmatch(f"{first} {second}") for first, second in pairwise(words)
    )


def redact(key: str, value: Value, *, secret: bool = False) -> Value:
    """`value` as it may be printed; `secret` says that a key above this one looks secret."""
    secret = secret or looks_secret(key)
    if isinstance(value, dict):
        return {inner: redact(inner, child, secret=secret) for inner, child in value.items()}
    if isinstance(value, list):
        return [redact(key, child, secret=secret) for child in value]
    if secret and isinstance(value, str) and _REFERENCES.fullmatch(value):
        return _DEFAULT.sub(rf"\1{STARS}}}", value)
    if secret and value is not None:
        return STARS
    return mask(value) if isinstance(value, str) else value


def concealed(lines: list[str], index: int) -> str:
    """`lines[index]` with stars for its secrets, every column unmoved, for underlining in an error."""
    line = lines[index]
    if _inside_a_secret(lines, index):
        return re.sub(r"\S", "*", line)
    pair = _BLOCK_PAIR.fullmatch(line)
    if pair and looks_secret(pair[2]):
        return pair[1] + _starred(pair[3])
    return concealed_pairs(line)


def concealed_pairs(line: str) -> str:
    """A line with stars for the secrets among its `key: value` and `key = value` pairs and in its URIs."""
    line = _FLOW_PAIR.sub(lambda m: m[1] + _starred(m[3]) if looks_secret(m[2]) else m[0], line)
    return mask(line, keep_length=True)


def _starred(text: str) -> str:
    bare = _REFERENCES.fullmatch(text.strip(" \t\r\"'")) and not _DEFAULT.search(text)
    return text if bare else re.sub(r"\S", "*", text)


def _inside_a_secret(lines: list[str], index: int) -> bool:
    """Whether a line above, indented less, is a secret's key: its value goes on here."""
    indent = _indent(lines[index])
    for above in range(index - 1, max(-1, index - 500), -1):
        line = lines[above]
        if line.strip() and _indent(line) < indent:
            indent = _indent(line)
            pair = _BLOCK_PAIR.fullmatch(line)
            if pair and looks_secret(pair[2]):
                return True
        if indent == 0:
            return False
    return False


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def remember(secret: str) -> None:
    """From now on `hide` hides this text. Very short ones would hide half of every message."""
    if len(secret) >= 4:
        _revealed.add(secret)


def hide(text: str) -> str:
    """`text` without the secrets resolved so far and without the passwords inside its URIs."""
    for secret in sorted(_revealed, key=len, reverse=True):
        text = text.replace(secret, STARS)
    return mask(text)
