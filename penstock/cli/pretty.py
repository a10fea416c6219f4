"""Messages on a terminal: a dim line that says where and when, then the payload, in colours."""

from __future__ import annotations

import json
import re
import sys
from typing import Any

import typer

from penstock.cli import render
from penstock.streams.shown import line

_TOKEN = re.compile(r'("(?:[^"\\]|\\.)*")(\s*:)?|\b(true|false|null)\b|(-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)')
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def pretty(message: dict[str, Any], *, with_meta: bool) -> str:
    """What `whole` tells of a message, for people."""
    coloured = render.in_colour(sys.stdout)
    head = f"{message['timestamp']} {message['stream']}/{message['shard']}@{message['sequence']}"
    head += "" if message["key"] is None else f" {message['key']}"
    shown = message if with_meta else message["payload"]
    text = shown if isinstance(shown, str) else json.dumps(
        json.loads(line(shown)), ensure_ascii=False, indent=2
    )  # fmt: skip
    # What a message holds may not steer the terminal.
    head, text = (_CONTROLS.sub("\N{REPLACEMENT CHARACTER}", part) for part in (head, text))
    if coloured:
        head = typer.style(head, dim=True)
        text = text if isinstance(shown, str) else _TOKEN.sub(_paint, text)
    return f"{head}\n{text}\n"


def _paint(found: re.Match[str]) -> str:
    text, colon, word, _ = found.groups()
    if colon:
        return typer.style(text, fg="blue", bold=True) + colon
    return typer.style(found[0], fg="green" if text else "magenta" if word else "cyan")
