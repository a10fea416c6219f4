"""How a file is laid over its base.

Objects merge key by key and the derived value wins; lists and single values replace. In files that
describe an endpoint, top-level keys (`schema:`, `topic:`) belong under its `datasource:` or `datasink:`,
and each key has one spelling, so that a value is replaced however it was spelt in the base.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from penstock.config.tree import Node
from penstock.errors import ConfigError

SECTIONS = ("datasource", "datasink")
PROFILES = ("performance_profiles", "delivery_profiles")


def merge(base: Node, derived: Node) -> Node:
    """`derived` over `base`; every value keeps its own place."""
    if not isinstance(base.value, dict) or not isinstance(derived.value, dict):
        return derived
    items = dict(base.value)
    for key, child in derived.value.items():
        items[key] = merge(items[key], child) if key in items else child
    return replace(derived.with_items(items), key_at=derived.key_at or base.key_at)


def merge_file(base: Node | None, file: Node) -> Node:
    """`file` over what it extends, top-level keys folded into the section that they mean."""
    sections = [name for name in SECTIONS if name in file.items or (base and name in base.items)]
    if len(sections) == 1:
        base, file = base and _fold(base, sections[0]), _fold(file, sections[0])
    elif sections:
        _refuse_ambiguous(file)
        file = file.with_items({k: _spelt(v) if k in SECTIONS else v for k, v in file.items.items()})
    return file if base is None else merge(base, file)


def _fold(root: Node, section: str) -> Node:
    outside = {key: child for key, child in root.items.items() if key in PROFILES}
    own = {key: child for key, child in root.items.items() if key != section and key not in PROFILES}
    inside = root.items.get(section)
    if inside is not None and not isinstance(inside.value, dict):
        raise ConfigError("bad-value", f"'{section}' takes keys and values", at=inside.at)
    folded = _spelt(inside) if inside else None
    if own:
        overlay = _spelt(root.with_items(own))
        folded = merge(folded, overlay) if folded else overlay
    if folded is None:
        return root
    place = inside or root
    return root.with_items({section: replace(folded, at=place.at, key_at=place.key_at), **outside})


def _refuse_ambiguous(file: Node) -> None:
    for key, child in file.items.items():
        if key not in SECTIONS and key not in PROFILES:
            raise ConfigError(
                "ambiguous-key",
                f"'{key}' could belong to datasource or to datasink",
                at=child.key_at,
                hint="move it under one of them",
            )


def dotted(key: str) -> str:
    """Kafka's spelling: `session_timeout_ms` -> `session.timeout.ms`."""
    return key.replace("_", ".")


def underscored(key: str) -> str:
    """Ours: `key.field` -> `key_field`."""
    return key.replace(".", "_").replace("-", "_")


_SPELLINGS: dict[str, Callable[[str], str]] = {
    "consumer_config": dotted,
    "producer_config": dotted,
    "schema": underscored,
    "topic_config": underscored,
}


def _spelt(section: Node) -> Node:
    """`section` with one spelling for each key of ours and of Kafka's."""
    if not isinstance(section.value, dict):
        return section
    items: dict[str, Node] = {}
    for key, child in section.value.items():
        name = "topic_config" if underscored(key) == "stream_config" else key
        if name in _SPELLINGS:
            child = _renamed(child, _SPELLINGS[name])
        elif name == "topic" and not isinstance(child.value, dict | list):
            child = Node({}, child.at, child.key_at).with_items({"name": child})
        if name not in items:
            items[name] = child
        else:  # stream.config beside topic_config: the more specific name wins
            items[name] = merge(items[name], child) if key == name else merge(child, items[name])
    return section.with_items(items)


def _renamed(node: Node, spelling: Callable[[str], str]) -> Node:
    if not isinstance(node.value, dict):
        return node
    items: dict[str, Node] = {}
    for key, child in node.value.items():
        name = spelling(key)
        if name in items:
            raise ConfigError(
                "duplicate-key",
                f"'{key}' and '{name}' are the same setting",
                at=child.key_at,
                hint="remove one",
            )
        items[name] = child
    return node.with_items(items)
