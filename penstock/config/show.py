"""`penstock config show FILE`: the merged result, where each value came from, and no secrets."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from penstock.config.endpoint import endpoint_of
from penstock.config.load import load
from penstock.config.overlay import SECTIONS
from penstock.config.profiles import Role
from penstock.config.project import Project, project_of
from penstock.config.redact import looks_secret, redact
from penstock.config.tree import Node, parse
from penstock.errors import ConfigError
from penstock.options import Value

_PLAIN = re.compile(r"[A-Za-z_./$][\w./@+$-]*(?::[\w./@+$-]+)*")
_UNSAFE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff\ufffe\uffff]")


@dataclass(frozen=True)
class Line:
    """One value of the merged result; an empty map or list is a value."""

    path: tuple[str | int, ...]
    value: Value
    source: str
    """`file:line`, where it was written."""


@dataclass(frozen=True)
class Shown:
    lines: tuple[Line, ...]
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, object]:
        values = [
            {"path": ".".join(map(str, line.path)), "value": line.value, "source": line.source}
            for line in self.lines
        ]
        return {"values": values, "notes": list(self.notes)}

    def render(self) -> str:
        """YAML that means the same, each value followed by `# file:line`."""
        return _render(self.lines)


def show(path: str | Path, *, project: Project | None = None) -> Shown:
    """The merged result of a project's or an endpoint's file; raises when it is not a valid one.

    `project` is the one whose profiles an endpoint's file may choose.
    """
    document = load(path)
    sections = [name for name in SECTIONS if name in document.root.items]
    notes: tuple[str, ...] = ()
    for name in sections:
        role: Role = "source" if name == "datasource" else "sink"
        notes += endpoint_of(document, role=role, defaults=project.profiles() if project else None).notes
    if not sections:
        project_of(document)
    return Shown(tuple(_lines((), document.root, False)), notes)


def _lines(path: tuple[str | int, ...], node: Node, secret: bool) -> list[Line]:
    if isinstance(node.value, dict) and node.value:
        return [
            line
            for key, child in node.value.items()
            for line in _lines((*path, key), child, secret or looks_secret(key))
        ]
    if isinstance(node.value, list) and node.value:
        return [line for i, child in enumerate(node.value) for line in _lines((*path, i), child, secret)]
    value: Value = node.value if not isinstance(node.value, dict | list) else type(node.value)()
    return [Line(path, redact("", value, secret=secret), f"{node.at.source}:{node.at.line}")]


def _render(lines: tuple[Line, ...]) -> str:
    rows: list[tuple[str, str]] = []
    before: tuple[str | int, ...] = ()
    for line in lines:
        *above, last = line.path or ("",)
        shared = next(
            (i for i, (a, b) in enumerate(zip(above, before, strict=False)) if a != b),
            min(len(above), len(before)),
        )
        rows += [("  " * depth + _label(part), "") for depth, part in enumerate(above) if depth >= shared]
        if line.path:
            value = _scalar(line.value)
            text = f"{'  ' * len(above)}{_label(last)} {value}".rstrip()
            rows.append((text, line.source))
        before = line.path
    width = min(60, max((len(text) for text, source in rows if source), default=0))
    return "".join(f"{text:<{width}}  # {source}\n" if source else f"{text}\n" for text, source in rows)


def _label(part: str | int) -> str:
    return "-" if isinstance(part, int) else f"{_scalar(part)}:"


def _scalar(value: Value) -> str:
    """A value as YAML, quoted where its text would be read as something else."""
    if isinstance(value, str):
        if _PLAIN.fullmatch(value) and _reads_back(value):
            return value
        quoted = json.dumps(value, ensure_ascii=False)
        return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", quoted)
    if isinstance(value, float):
        return {"inf": ".inf", "-inf": "-.inf", "nan": ".nan"}.get(repr(value), repr(value))
    return json.dumps(value)


def _reads_back(text: str) -> bool:
    try:
        return parse(f"x: {text}", "").items["x"].value == text
    except ConfigError:
        return False
