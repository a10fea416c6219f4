"""A file with `datasource:` or `datasink:` -> an Endpoint: a type and its settings."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from penstock.config.check import require_map
from penstock.config.load import Document, Files, load
from penstock.config.overlay import SECTIONS
from penstock.config.profiles import Defaults, Role, built_in
from penstock.config.tree import Node
from penstock.config.vocabulary import Vocabulary, type_of
from penstock.errors import ConfigError, Place
from penstock.options import Setting, Value


@dataclass(frozen=True)
class Endpoint:
    """What a source or a sink is: its type, and its settings as they were written."""

    type: str
    settings: tuple[Setting, ...] = field(repr=False)
    at: Place
    role: Role | None = None
    """None for one that can be either, from `data_sources:`."""
    notes: tuple[str, ...] = ()
    """What was accepted but has no effect, and why."""
    metadata: dict[str, Value] = field(default_factory=dict)
    integrations: dict[str, Value] = field(default_factory=dict)


def load_endpoint(
    path: str | Path,
    *,
    role: Role | None = None,
    at: Place | None = None,
    performance_profile: Setting | None = None,
    delivery_profile: Setting | None = None,
    defaults: Defaults | None = None,
    files: Files | None = None,
) -> Endpoint:
    """The endpoint that `path` describes; `at` is where somebody asked for it.

    A profile given here was chosen by the statement and wins over everything in the file.
    """
    document = load(path, at=at, files=files)
    given = {"performance": performance_profile, "delivery": delivery_profile}
    return endpoint_of(document, role=role, given=given, defaults=defaults)


def endpoint_of(
    document: Document,
    *,
    role: Role | None = None,
    given: dict[str, Setting | None] | None = None,
    defaults: Defaults | None = None,
) -> Endpoint:
    """The endpoint of a merged document."""
    name = _section(document, role)
    section = document.root.items[name]
    require_map(section, f"'{name}'")
    words = Vocabulary(document, section, "source" if name == "datasource" else "sink")
    for key, child in section.items.items():
        words.take(key, child)
    words.profiles(given or {}, defaults or Defaults(built_in()))
    return Endpoint(
        type_of(section, required=True),
        words.settings(),
        section.key_at or section.at,
        words.role,
        tuple(words.notes),
        words.metadata,
        words.integrations,
    )


def _section(document: Document, role: Role | None) -> str:
    there = [name for name in SECTIONS if name in document.root.items]
    wanted = {None: there, "source": ["datasource"], "sink": ["datasink"]}[role]
    found = [name for name in wanted if name in there]
    if len(found) == 1:
        return found[0]
    file, at = document.files[0], document.root.at
    if found:
        raise ConfigError("ambiguous-endpoint", f"{file} has both datasource and datasink", at=at)
    asked = " or ".join(f"'{name}:'" for name in wanted or SECTIONS)
    has = f", only '{there[0]}:'" if there else ""
    hint = "begin with 'datasource:' to read and with 'datasink:' to write"
    raise ConfigError("missing-section", f"{file} has no {asked}{has}", at=at, hint=hint)


def type_and_settings(node: Node, owner: str) -> Endpoint:
    """An entry of `data_sources:`: its type, and every other key as it stands."""
    require_map(node, owner)
    return Endpoint(type_of(node, required=True), _settings(node, but="type"), node.key_at or node.at)


def named_settings(section: str, name: str, node: Node) -> Endpoint:
    """An entry of `defaults:` or `catalogs:`: the settings of all that this name stands for."""
    require_map(node, f"'{section}.{name}'")
    return Endpoint(name, _settings(node), node.key_at or node.at)


def _settings(node: Node, but: str | None = None) -> tuple[Setting, ...]:
    return tuple(
        Setting(key, child.plain(), child.span)
        for key, child in node.items.items()
        if key != but and child.value is not None
    )
