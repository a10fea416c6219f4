"""YAML text -> a tree in which every key and value knows where it was written.

The scalars are those of YAML 1.2: `yes`, `on`, dates and `12:30` are text. Keys are always text.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import yaml

from penstock.config.redact import concealed
from penstock.config.references import anchored, references
from penstock.errors import ConfigError, Place
from penstock.options import Value

MAX_DEPTH = 50
MAX_NODES = 100_000
MAX_BYTES = 4 << 20

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_WORDS: dict[str, bool | float | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **{sign + dot: float(sign + "inf") for sign in ("", "+", "-") for dot in (".inf", ".Inf", ".INF")},
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
}
_STANDARD = "tag:yaml.org,2002:"


@dataclass(frozen=True)
class Node:
    """A value, where it stands, and where its key stands."""

    value: str | int | float | bool | dict[str, Node] | list[Node] | None
    at: Place
    key_at: Place | None = None
    text: str = ""
    """A scalar as it was written: `007`, `1.10`."""
    size: int = 1
    height: int = 1

    @property
    def items(self) -> dict[str, Node]:
        """The children of a map; none for anything else."""
        return self.value if isinstance(self.value, dict) else {}

    @property
    def span(self) -> Place:
        """Key and value together, as far as they stand on one line."""
        key = self.key_at
        if key is None or (key.source, key.line) != (self.at.source, self.at.line):
            return key or self.at
        return replace(key, length=max(key.length, self.at.column + self.at.length - key.column))

    def plain(self) -> Value:
        """The value as data; relative `${file:...}` references are put under their own file's folder."""
        if isinstance(self.value, dict):
            return {key: child.plain() for key, child in self.value.items()}
        if isinstance(self.value, list):
            return [child.plain() for child in self.value]
        if isinstance(self.value, str):
            return anchored(self.value, os.path.dirname(self.at.source))
        return self.value

    def with_items(self, items: dict[str, Node]) -> Node:
        return replace(self, value=items, size=_size(items.values()), height=_height(items.values()))


def _size(children: Iterable[Node]) -> int:
    return 1 + sum(child.size for child in children)


def _height(children: Iterable[Node]) -> int:
    return 1 + max((child.height for child in children), default=0)


def parse(text: str, source: str) -> Node:
    """The one document of `text`, a map; empty text is an empty map."""
    return _Builder(text.removeprefix("\ufeff"), source).document()


class _Builder:
    def __init__(self, text: str, source: str) -> None:
        self.text, self.source = text, source
        self.lines = text.split("\n")
        self.starts = [0]
        for line in self.lines[:-1]:
            self.starts.append(self.starts[-1] + len(line) + 1)
        self.shown: dict[int, str] = {}
        self.anchors: dict[str, Node | None] = {}
        self.nodes = 0

    def document(self) -> Node:
        bad = _UNPRINTABLE.search(self.text)
        if bad:
            self.fail(bad.start(), "bad-yaml", f"the character {bad[0]!a} cannot stand in YAML")
        self.events = self.read()
        event = next(self.events)
        while isinstance(event, yaml.StreamStartEvent | yaml.DocumentStartEvent):
            event = next(self.events)
        if isinstance(event, yaml.StreamEndEvent):
            return Node({}, self.place(0, 1))
        root = self.build(event, 0)
        for event in self.events:
            if isinstance(event, yaml.DocumentStartEvent):
                hint = "put each document into its own file"
                self.fail(_start(event), "bad-yaml", "more than one YAML document in a file", hint)
        if root.value is None:
            return Node({}, root.at)
        if not isinstance(root.value, dict):
            raise ConfigError("bad-yaml", "expected keys and values, such as 'name: value'", at=root.at)
        return root

    def read(self) -> Iterator[yaml.Event]:
        # events rather than nodes: composing recurses without a limit, and expands aliases blindly
        try:
            yield from yaml.parse(self.text, Loader=_LOADER)
        except yaml.MarkedYAMLError as failure:
            mark = failure.problem_mark or failure.context_mark
            problem = failure.problem or failure.context or "cannot be read"
            index = mark.index if mark else 0
            self.fail(index, "bad-yaml", f"not YAML: {problem}", self.hint_for(index))
        except (yaml.YAMLError, ValueError, OverflowError):
            self.fail(0, "bad-yaml", "not YAML: cannot be read")

    def hint_for(self, index: int) -> str | None:
        if self.text[index : index + 1] == "\t":
            return "indent with spaces"
        if self.text[index - 1 : index + 1] == "${":
            return "inside { } and [ ], quote a value with a reference: '${env:NAME}'"
        return None

    def build(self, event: yaml.Event, depth: int) -> Node:
        at = self.place_of(event)
        node = self.alias(event, at) if isinstance(event, yaml.AliasEvent) else None
        if depth + (node.height if node else 1) > MAX_DEPTH:
            raise ConfigError("too-deep", f"nested more than {MAX_DEPTH} levels deep", at=at)
        if node:
            return node
        anchor = getattr(event, "anchor", None)
        if anchor:
            self.anchors[anchor] = None
        if isinstance(event, yaml.MappingStartEvent):
            node = self.mapping(event, at, depth)
        elif isinstance(event, yaml.SequenceStartEvent):
            node = self.sequence(event, at, depth)
        else:
            assert isinstance(event, yaml.ScalarEvent)
            node = self.scalar(event, at)
        if anchor:
            self.anchors[anchor] = node
        self.count(1, at)
        return node

    def alias(self, event: yaml.AliasEvent, at: Place) -> Node:
        if event.anchor not in self.anchors:
            raise ConfigError("bad-yaml", f"no '&{event.anchor}' stands before this '*{event.anchor}'", at=at)
        node = self.anchors[event.anchor]
        if node is None:
            raise ConfigError("bad-yaml", f"'*{event.anchor}' stands inside itself", at=at)
        self.count(node.size, at)
        return replace(node, at=at)

    def count(self, nodes: int, at: Place) -> None:
        self.nodes += nodes
        if self.nodes > MAX_NODES:
            raise ConfigError("too-large", f"more than {MAX_NODES:,} values, with aliases expanded", at=at)

    def mapping(self, event: yaml.MappingStartEvent, at: Place, depth: int) -> Node:
        self.collection_tag(event, "map", at)
        items: dict[str, Node] = {}
        merged: dict[str, Node] = {}
        while not isinstance(first := next(self.events), yaml.MappingEndEvent):
            key_at = self.place_of(first)
            if not isinstance(first, yaml.ScalarEvent) or not first.value:
                raise ConfigError("bad-key", "a key must be a text", at=key_at)
            value = self.build(next(self.events), depth + 1)
            if first.value == "<<" and first.implicit[0]:
                self.merge_key(merged, value)
                continue
            if first.value in items:
                before = items[first.value].key_at
                message = f"'{first.value}' is set twice; first on line {before.line if before else '?'}"
                raise ConfigError("duplicate-key", message, at=key_at, hint="remove one of them")
            items[first.value] = replace(value, key_at=key_at)
        return Node({}, at).with_items({**merged, **items})

    def merge_key(self, merged: dict[str, Node], value: Node) -> None:
        maps = value.value if isinstance(value.value, list) else [value]
        for node in maps:
            if not isinstance(node.value, dict):
                raise ConfigError("bad-yaml", "'<<' takes a map, or a list of maps", at=value.at)
            for key, child in node.value.items():
                merged.setdefault(key, child)

    def sequence(self, event: yaml.SequenceStartEvent, at: Place, depth: int) -> Node:
        self.collection_tag(event, "seq", at)
        children = []
        while not isinstance(first := next(self.events), yaml.SequenceEndEvent):
            children.append(self.build(first, depth + 1))
        return Node(children, at, size=_size(children), height=_height(children))

    def collection_tag(self, event: yaml.CollectionStartEvent, name: str, at: Place) -> None:
        if event.tag not in (None, "!", _STANDARD + name):
            raise ConfigError("bad-yaml", f"the tag {event.tag} is not known", at=at, hint="remove it")

    def scalar(self, event: yaml.ScalarEvent, at: Place) -> Node:
        tag = event.tag
        value: str | int | float | bool | None = event.value
        if tag is None and event.implicit[0]:
            value = _value_of(event.value, at)
        elif tag not in (None, "!", _STANDARD + "str"):
            value = _value_of(event.value, at)
            kinds = {bool: "bool", int: "int", float: "float", type(None): "null", str: "str"}
            if tag == _STANDARD + "float" and type(value) is int:
                value = float(event.value)
            if tag != _STANDARD + kinds[type(value)]:
                raise ConfigError("bad-yaml", f"the tag {tag} does not fit", at=at, hint="remove it")
        if isinstance(value, str):
            references(value, at)
        return Node(value, at, text=event.value)

    def place_of(self, event: yaml.Event) -> Place:
        return self.place(_start(event), event.end_mark.index if event.end_mark else 0)

    def place(self, start: int, end: int) -> Place:
        start = min(start, len(self.text))
        index = bisect_right(self.starts, start) - 1
        if index not in self.shown:
            self.shown[index] = concealed(self.lines, index).rstrip("\r")
        line = self.shown[index]
        column = start - self.starts[index] + 1
        return Place(self.source, index + 1, column, max(1, min(end - start, len(line) - column + 1)), line)

    def fail(self, index: int, code: str, message: str, hint: str | None = None) -> NoReturn:
        raise ConfigError(code, message, at=self.place(index, index + 1), hint=hint) from None


def _start(event: yaml.Event) -> int:
    return event.start_mark.index if event.start_mark else 0


def _value_of(text: str, at: Place) -> str | int | float | bool | None:
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text):
        if len(text) > 300:
            raise ConfigError("bad-value", "a number with more than 300 digits", at=at, hint="quote a text")
        return int(text, 0) if text[1:2] in ("o", "x") else int(text)
    return float(text) if _FLOAT.fullmatch(text) else text
