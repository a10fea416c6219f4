"""Everything that Penstock raises on purpose.

PenstockError
├── InputError         what you wrote is wrong                                exit code 2
│   ├── StatementError   a statement does not parse, or names what is not there
│   ├── OptionError      an option is unknown, missing, or has a bad value
│   ├── ConfigError      a YAML file is wrong, missing, or goes in circles
│   └── DataError        a record, a file or a target is not what was promised
├── SetupError         the machine, a server or a permission is wrong         exit code 3
└── RunError           failed while running                                   exit code 1

An error is part of the interface: a stable code for programs, a message for people, the place in what
they wrote, and a hint that mends it. It looks the same on the terminal, in JSON and in REST answers.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar


@dataclass(frozen=True)
class Place:
    """Where something stands: a file (or `statement`), a line and a column, both from 1."""

    source: str
    line: int
    column: int = 1
    length: int = 1
    text: str = ""
    """The whole line, for underlining; empty when there is nothing to show."""

    def __str__(self) -> str:
        return f"{self.source}:{self.line}:{self.column}"

    @classmethod
    def of(cls, source: str, text: str, start: int, end: int | None = None) -> Place:
        """The place of `text[start:end]`, underlined up to the end of its first line."""
        start = max(0, min(start, len(text)))
        begin = text.rfind("\n", 0, start) + 1
        stop = text.find("\n", start)
        line = text[begin : stop if stop >= 0 else len(text)].rstrip("\r")
        column = start - begin + 1
        length = max(1, min((end if end is not None else start + 1) - start, len(line) - column + 1))
        # What is half of a character can be told of, but not printed.
        shown = line.encode("utf-8", "replace").decode()
        return cls(source, text.count("\n", 0, start) + 1, column, length, shown)


class PenstockError(Exception):
    """Base of all errors; never raised itself."""

    exit_code: ClassVar[int] = 1

    def __init__(self, code: str, message: str, *, at: Place | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.at = at
        self.hint = hint

    def __str__(self) -> str:
        return self.render()

    def render(self) -> str:
        lines = [f"error[{self.code}]: {self.message}"]
        if self.at is not None:
            lines.append(f"  --> {self.at}")
            if self.at.text:
                number = str(self.at.line)
                margin = " " * len(number)
                lead = "".join("\t" if c == "\t" else " " for c in self.at.text[: self.at.column - 1])
                lines.append(f" {margin} |")
                lines.append(f" {number} | {self.at.text}")
                lines.append(f" {margin} | {lead}{'^' * self.at.length}")
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        at = self.at and {"source": self.at.source, "line": self.at.line, "column": self.at.column}
        return {"code": self.code, "message": self.message, "at": at, "hint": self.hint}


class InputError(PenstockError):
    """What was written is wrong."""

    exit_code = 2


class StatementError(InputError):
    """A statement does not parse, or names what is not there."""


class OptionError(InputError):
    """An option is unknown, missing, or has a bad value."""


class ConfigError(InputError):
    """A YAML file is wrong, missing, or goes in circles."""


class DataError(InputError):
    """A record, a file or a target is not what was promised."""


class SetupError(PenstockError):
    """The machine, a server or a permission is wrong."""

    exit_code = 3


class RunError(PenstockError):
    """Failed while running."""


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """A hint naming the nearest of `known`, or all of them when they are few."""
    names = sorted(set(known))
    near = difflib.get_close_matches(word.lower(), [n.lower() for n in names], n=1, cutoff=0.6)
    if near:
        return f"did you mean '{next(n for n in names if n.lower() == near[0])}'?"
    return f"known: {', '.join(names)}" if 0 < len(names) <= 40 else None


def said(failure: BaseException) -> str:
    """All that a failure says, Java's causes included."""
    return f"{failure}\n{failure.__cause__ or ''}"
