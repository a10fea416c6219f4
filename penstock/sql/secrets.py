"""Statements without the secrets that were written into them: for the catalog, logs and other eyes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from itertools import dropwhile, takewhile
from typing import Any
from urllib.parse import unquote

from penstock.config import has_reference, looks_secret
from penstock.options import Setting
from penstock.sql.dialect import tokenize
from penstock.sql.statements import Statement
from penstock.uri import passwords


def replace_secrets(statement: Statement, instead: Callable[[str, str], str]) -> str:
    """The statement's text with every literal secret replaced by `instead(key, secret)`.

    Secrets are the values of options whose names say so, and the passwords inside URIs. A reference
    such as `${env:NAME}` is none.
    """
    # Invariant 8
    spans: list[tuple[int, int, str]] = []
    tokens = tokenize(statement.text)
    for setting in _settings(statement):
        if looks_secret(setting.key) and setting.value is not None and not has_reference(setting.value):
            key = _offset(statement, setting)
            behind = iter(token for token in tokens if token.start > key)
            value = list(
                takewhile(lambda t: t.text not in (",", ")"), dropwhile(lambda t: t.text != "=", behind))
            )
            text = "'" + instead(setting.key, str(setting.value)).replace("'", "\\'") + "'"
            spans.append((value[1].start, value[-1].end + 1, text))
    for token in tokens:
        written = statement.text[token.start : token.end + 1]
        # A quote in a password is written in another way than it is meant.
        for password, meant in zip(passwords(written), passwords(token.text), strict=False):
            if not has_reference(password):
                start = token.start + written.index(f":{password}@") + 1
                spans.append((start, start + len(password), instead("password", unquote(meant))))
    text = statement.text
    for start, end, replacement in sorted(spans, reverse=True):
        text = text[:start] + replacement + text[end:]
    return text


def _offset(statement: Statement, setting: Setting) -> int:
    """Where in the statement's text the setting's key stands."""
    assert setting.at is not None
    line = setting.at.line - statement.at.line
    if line == 0:
        return setting.at.column - statement.at.column
    start = 0
    for _ in range(line):
        start = statement.text.index("\n", start) + 1
    return start + setting.at.column - 1


def _settings(value: Any) -> Iterator[Setting]:
    if isinstance(value, Setting):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _settings(item)
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from _settings(getattr(value, field.name))
