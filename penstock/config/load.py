"""Files -> one merged tree: `extends`, several levels deep, each value keeping the file it came from."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from penstock.config.overlay import merge_file
from penstock.config.references import resolve
from penstock.config.tree import MAX_BYTES, Node, parse
from penstock.errors import ConfigError, Place


@dataclass(frozen=True)
class Document:
    """A file merged with all that it extends."""

    root: Node
    files: tuple[str, ...]
    """The file itself, then its base, then that one's base."""

    def rank(self, at: Place) -> int:
        """How far from the file itself a place is: what is written nearer wins."""
        return self.files.index(at.source) if at.source in self.files else len(self.files)


@dataclass(frozen=True)
class Files:
    """Reads each file once, however many others extend it."""

    _read: dict[str, Node] = field(default_factory=dict, repr=False)

    def load(self, path: str | Path, *, at: Place | None = None) -> Document:
        """The merged document of `path`; `at` is where somebody asked for it."""
        chain: dict[str, Node] = {}
        source, asked_by = os.path.normpath(os.fspath(path)), ""
        while True:
            real = os.path.realpath(source) if "\0" not in source else source
            if real in chain:
                raise _cycle([node.at.source for node in chain.values()], chain[real].at.source, at)
            # by the name it was asked by: a link's relative paths start where the link is
            name = os.path.abspath(source)
            if name not in self._read:
                self._read[name] = parse(_text(source, asked_by, at), source)
            chain[real] = node = self._read[name]
            extends = node.items.get("extends")
            if extends is None:
                return _merged(list(chain.values()))
            asked_by, at = node.at.source, extends.at
            source = _base(extends, asked_by)


def load(path: str | Path, *, at: Place | None = None, files: Files | None = None) -> Document:
    """The merged document of `path`; give the same `files` to read shared bases once."""
    return (files or Files()).load(path, at=at)


def _base(extends: Node, source: str) -> str:
    if not isinstance(extends.value, str) or not extends.value:
        hint = "extends: base.yaml"
        raise ConfigError("bad-value", "'extends' takes the path of one file", at=extends.at, hint=hint)
    path = resolve(extends.value, key="extends", at=extends.at)
    return os.path.normpath(os.path.join(os.path.dirname(source), path))


def _cycle(chain: list[str], again: str, at: Place | None) -> ConfigError:
    circle = " -> ".join([*chain[chain.index(again) :], again])
    message = f"these files extend each other in a circle: {circle}"
    return ConfigError("extends-cycle", message, at=at, hint="remove one of the 'extends'")


def _merged(chain: list[Node]) -> Document:
    merged: Node | None = None
    for node in reversed(chain):
        own = node.with_items({key: child for key, child in node.items.items() if key != "extends"})
        merged = merge_file(merged, own)
    assert merged is not None
    return Document(merged, tuple(node.at.source for node in chain))


def _text(source: str, asked_by: str, at: Place | None) -> str:
    by = f", which {asked_by} extends," if asked_by else ""
    try:
        if not os.path.exists(source):
            hint = "the path starts at the folder of the file that extends it" if asked_by else None
            raise ConfigError("config-not-found", f"{source}{by} does not exist", at=at, hint=hint)
        if not os.path.isfile(source):
            raise ConfigError("config-unreadable", f"{source}{by} is not a file", at=at)
        with open(source, "rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as failure:
        message = f"{source}{by} cannot be read: {failure.strerror}"
        raise ConfigError("config-unreadable", message, at=at) from None
    except ValueError:
        raise ConfigError("config-not-found", f"{source!a}{by} is not a path", at=at) from None
    if len(content) > MAX_BYTES:
        raise ConfigError("too-large", f"{source}{by} is larger than {MAX_BYTES >> 20} MB", at=at)
    return decode(content, source)


def decode(content: bytes, source: str) -> str:
    """UTF-8 text; anything else is underlined at its first bad byte."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as failure:
        before = content[: failure.start].decode("utf-8", "replace")
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        raise ConfigError(
            "bad-yaml",
            f"{source} is not UTF-8 text",
            at=Place(source, line, column),
            hint="save the file as UTF-8",
        ) from None
