"""The words of a `datasource:` or `datasink:` -> the settings of a connector.

| in the file | setting |
|---|---|
| `bootstrap_servers` of consumer_config, producer_config | `bootstrap.servers` |
| `topic.name` | `topic` |
| `auto_offset_reset` | `start` |
| `schema`: key_format, value_format, key.field | `key.format`, `format`, `key` |
| `schema`: schema_file, schema_registry_url | `schema_file`, `schema_registry` |
| the rest of consumer_config, producer_config | `consumer`, `producer`, Kafka's dotted keys |
| topic_config, stream.config | `topic_config` |
| headers | `headers` |
| profiles | into `consumer`, `producer`; `trigger`, `batch_size`, `delivery_guarantee` |
| any other key | itself |
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from penstock.config import client
from penstock.config.check import check, require_map
from penstock.config.load import Document
from penstock.config.profiles import Defaults, Role
from penstock.config.references import has_reference
from penstock.config.sections import Integration, Schema, Topic, TopicConfig
from penstock.config.tree import Node
from penstock.errors import ConfigError, Place, did_you_mean
from penstock.options import Setting, Value


@dataclass(frozen=True)
class _Entry:
    value: Value
    at: Place
    rank: tuple[int, int]
    """What is nearer wins; in one file what is written wins over what a profile brings."""

    @property
    def from_profile(self) -> bool:
        return self.rank[1] > 0


class Vocabulary:
    """Takes a section's parts one by one, and keeps for each setting the value that wins."""

    def __init__(self, document: Document, section: Node, role: Role) -> None:
        self.document, self.section, self.role = document, section, role
        self.own_client = "consumer" if role == "source" else "producer"
        self.entries: dict[tuple[str, str], _Entry] = {}
        self.groups: dict[str, Place] = {}
        self.notes: list[str] = []
        self.chosen: dict[str, Node] = {}
        self.metadata: dict[str, Value] = {}
        self.integrations: dict[str, Value] = {}
        self.parts: dict[str, Callable[[Node], None]] = {
            "type": lambda node: None,
            "consumer_config": lambda node: self.client("consumer", node),
            "producer_config": lambda node: self.client("producer", node),
            "schema": self.schema,
            "topic": self.topic,
            "topic_config": self.topic_config,
            "headers": self.headers,
            "metadata": self.take_metadata,
            "integrations": self.take_integrations,
            "performance_profile": lambda node: self.choose("performance", node),
            "delivery_profile": lambda node: self.choose("delivery", node),
        }

    def take(self, key: str, node: Node) -> None:
        if node.value is None:
            return  # a null in a derived file takes away what its base says
        if key in self.parts:
            self.parts[key](node)
        elif isinstance(node.value, dict):
            hint = did_you_mean(key, self.parts)
            raise ConfigError("unknown-key", f"unknown key '{key}'", at=node.key_at or node.at, hint=hint)
        else:
            self.put("", key, node)

    def put(self, group: str, key: str, node: Node, value: Value = None) -> None:
        entry = _Entry(node.plain() if value is None else value, node.span, (self.document.rank(node.at), 0))
        before = self.entries.get((group, key))
        if before and before.rank == entry.rank:
            message = f"'{key}' is set twice; also in line {before.at.line}"
            raise ConfigError("duplicate-key", message, at=entry.at, hint="remove one of them")
        self.keep(group, key, entry)

    def keep(self, group: str, key: str, entry: _Entry) -> None:
        before = self.entries.get((group, key))
        if before is None or entry.rank < before.rank:
            self.entries[group, key] = entry

    def client(self, group: str, node: Node) -> None:
        require_map(node, f"'{group}_config'")
        if group != self.own_client:
            self.notes.append(f"{group}_config has no effect on a {self.role}")
            return
        self.groups[group] = node.span
        for key, child in node.items.items():
            if child.value is not None:
                self.client_setting(group, key, child)

    def client_setting(self, group: str, key: str, node: Node) -> None:
        value = _client_value(key, node)
        if key == "bootstrap.servers":
            self.put("", key, node, value)
        elif key == "auto.offset.reset":
            self.put("", "start", node, _start(node))
        elif key in client.WITHOUT_EFFECT:
            self.notes.append(f"{group} setting '{key}' has no effect: {client.WITHOUT_EFFECT[key]}")
        else:
            known = client.CONSUMER_SETTINGS if group == "consumer" else client.PRODUCER_SETTINGS
            if key not in known and type_of(self.section) in client.CLIENT_TYPES:
                hint = did_you_mean(key, known)
                self.notes.append(f"Kafka knows no {group} setting '{key}'" + (f"; {hint}" if hint else ""))
            self.put(group, key, node, value)

    def schema(self, node: Node) -> None:
        check(Schema, node, "'schema'")
        for key, name in _SCHEMA.items():
            child = node.items.get(key)
            if child is not None and child.value is not None:
                self.put("", name, child, _path(child) if key == "schema_file" else _text(child))

    def topic(self, node: Node) -> None:
        check(Topic, node, "'topic'")
        self.put("", "topic", node.items["name"], _text(node.items["name"]))

    def topic_config(self, node: Node) -> None:
        values = check(TopicConfig, node, "'topic_config'").model_dump(exclude_none=True)
        self.groups["topic_config"] = node.span
        for key, value in values.items():
            name = key if key in ("partitions", "replication_factor") else key.replace("_", ".")
            self.put("topic_config", name, node.items[key], value)

    def headers(self, node: Node) -> None:
        require_map(node, "'headers'")
        if self.role == "source":
            self.notes.append("headers have no effect on a source")
            return
        self.groups["headers"] = node.span
        for key, child in node.items.items():
            if isinstance(child.value, dict | list):
                raise ConfigError("bad-value", f"header '{key}' takes a text", at=child.at)
            if child.value is not None:
                self.put("headers", key, child, _text(child))

    def take_metadata(self, node: Node) -> None:
        require_map(node, "'metadata'")
        self.metadata = {key: child.plain() for key, child in node.items.items()}

    def take_integrations(self, node: Node) -> None:
        require_map(node, "'integrations'")
        for key, child in node.items.items():
            check(Integration, child, f"integration '{key}'")
            self.integrations[key] = child.plain()
        if node.items:
            self.notes.append("integrations are kept, but nothing is sent to them")

    def choose(self, kind: str, node: Node) -> None:
        if not isinstance(node.value, str):
            raise ConfigError("bad-value", f"'{kind}_profile' takes the name of a profile", at=node.at)
        self.chosen[kind] = node

    def profiles(self, given: dict[str, Setting | None], defaults: Defaults) -> None:
        profiles = defaults.profiles.over(self.document.root)
        fallback = {"performance": defaults.performance, "delivery": defaults.delivery}
        # delivery first: of two profiles that set the same thing, it says the more
        for order, kind in enumerate(("delivery", "performance"), start=1):
            setting, node, spare = given.get(kind), self.chosen.get(kind), fallback[kind]
            if setting is not None:
                name, at, rank = str(setting.value), setting.at or self.section.at, -1
            elif node is not None:
                name, at, rank = str(node.value), node.at, self.document.rank(node.at)
            elif spare is not None:
                name, at, rank = str(spare.value), spare.at or self.section.at, len(self.document.files) + 1
            else:
                continue
            effects = list(profiles.effects(kind, name, self.role, at))
            if kind == "delivery" and self.role == "source":
                if node is not None:
                    self.notes.append("delivery_profile has no effect on a source")
                continue
            for effect in effects:
                if not effect.group or type_of(self.section) in client.CLIENT_TYPES:
                    self.groups.setdefault(effect.group, at)
                    self.keep(effect.group, effect.key, _Entry(effect.value, at, (rank, order)))

    def settings(self) -> tuple[Setting, ...]:
        """What won: single settings first, then the groups."""
        self.refuse_weak_acks()
        grouped: dict[str, dict[str, Value]] = {}
        settings = []
        for (group, key), entry in self.entries.items():
            if group:
                grouped.setdefault(group, {})[key] = entry.value
            else:
                settings.append(Setting(key, entry.value, entry.at, wish=entry.from_profile))
        settings += [Setting(group, values, self.groups[group]) for group, values in grouped.items()]
        return tuple(settings)

    def refuse_weak_acks(self) -> None:
        guarantee = self.entries.get(("", "delivery_guarantee"))
        acks = self.entries.get(("producer", "acks"))
        if guarantee and acks and guarantee.value == "exactly_once" and str(acks.value) in ("0", "1"):
            raise ConfigError(
                "bad-value",
                f"exactly_once needs acks 'all', not '{acks.value}'",
                at=acks.at,
                hint="remove 'acks', or choose another delivery_profile",
            )


_SCHEMA = {
    "key_format": "key.format",
    "value_format": "format",
    "key_field": "key",
    "schema_file": "schema_file",
    "schema_registry_url": "schema_registry",
}


def type_of(section: Node, *, required: bool = False) -> str:
    node = section.items.get("type")
    if node is None or node.value is None:
        if required:
            hint = "type: kafka"
            raise ConfigError(
                "missing-key", "a 'type' is missing", at=section.key_at or section.at, hint=hint
            )
        return ""
    if not isinstance(node.value, str):
        raise ConfigError("bad-value", "'type' takes the name of a connector", at=node.at)
    return node.value.lower()


def _text(node: Node) -> str:
    value = node.plain()
    return value if isinstance(value, str) else node.text


def _path(node: Node) -> str:
    """A path relative to the file that it is written in."""
    path = _text(node)
    if "://" in path or path.startswith("${"):
        return path
    return os.path.normpath(os.path.join(os.path.dirname(node.at.source), path))


def _client_value(key: str, node: Node) -> Value:
    value = node.plain()
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return ",".join(value)
    if value is None or isinstance(value, dict | list):
        raise ConfigError("bad-value", f"'{key}' takes a single value", at=node.at)
    whole = isinstance(value, int) and not isinstance(value, bool)
    if isinstance(value, str) and client.takes_number(key) and not has_reference(value):
        whole = value.lstrip("-").isdecimal()
    elif isinstance(value, str):
        whole = True
    if client.takes_number(key) and not whole:
        raise ConfigError("bad-value", f"'{key}' takes a whole number", at=node.at)
    return value


def _start(node: Node) -> str:
    starts = {"earliest": "earliest", "smallest": "earliest", "latest": "latest", "largest": "latest"}
    value = _text(node)
    if has_reference(value):
        return value
    if value.lower() not in starts:
        hint = "write earliest or latest"
        raise ConfigError("bad-value", f"auto_offset_reset cannot be '{value}'", at=node.at, hint=hint)
    return starts[value.lower()]
