"""What the keys do, and what the words mean."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from penstock.cli.top.columns import CHOSEN, COLOURS, NUMBERS, QUIET

_KEYS = (
    ("up, down", "choose a stream"),
    ("Enter", "open it: shards, clients, messages as they come"),
    ("left, right", "sort by another column; or click its title"),
    ("r", "reverse the order"),
    ("/", "show only what has this in its name; Esc shows all"),
    ("p", "let the screen stand still; looking goes on"),
    ("Esc", "back"),
    ("q", "quit"),
)
_WORDS = (
    ("bursting", "three times what came in the minute before, or more"),
    ("stale", "had messages, and nothing came for so long: --stale"),
    ("away", "cannot be seen now; tried again with each look"),
    ("~", "estimated from sizes, or projected from a shorter time"),
    ("lag", "of the group that is furthest behind"),
    ("-", "the system does not tell"),
)


class Helping(ModalScreen[None]):
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,question_mark,enter,q", "dismiss", show=False)]

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="help") as box:
            box.border_title = "help"
            yield Static(_text())


def _text() -> Text:
    text = Text()
    for word, meaning in _KEYS:
        text.append(word.ljust(13), CHOSEN).append(f"{meaning}\n", NUMBERS)
    for word, meaning in _WORDS:
        text.append(f"\n{word}".ljust(14), COLOURS.get(word, f"bold {NUMBERS}")).append(meaning, QUIET)
    return text
