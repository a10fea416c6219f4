"""Profiles: named bundles of settings for speed and for delivery.

A profile of the same name in a file changes only the values that it names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Literal, TypeVar

from pydantic import BeforeValidator, Field, model_validator

from penstock.config.check import Count, Late, Positive, Text, check, require_map
from penstock.config.overlay import merge
from penstock.config.tree import Node, parse
from penstock.errors import OptionError, Place, did_you_mean
from penstock.options import Duration, Options, Setting, Value

BUILT_IN = """\
performance_profiles:
  ultra_low_latency:
    fetch_max_wait_ms: 10
    max_poll_records: 1000
    buffer_size: 65536
    batch_bytes: 16384
    linger_ms: 0
    trigger: 0 seconds
    real_time: true
  high_throughput:
    fetch_max_wait_ms: 50
    fetch_min_bytes: 65536
    max_poll_records: 2000
    buffer_size: 131072
    batch_bytes: 262144
    linger_ms: 50
    compression_type: lz4
    trigger: 10 seconds
  balanced:
    fetch_max_wait_ms: 20
    max_poll_records: 1000
    buffer_size: 65536
    batch_bytes: 65536
    linger_ms: 5
    trigger: 1 second
delivery_profiles:
  critical:
    acks: all
    linger_ms: 0
    delivery_guarantee: exactly_once
  high_priority:
    acks: 1
    linger_ms: 1
    delivery_guarantee: at_least_once
  medium_priority:
    acks: 1
    linger_ms: 5
    delivery_guarantee: at_least_once
"""

Role = Literal["source", "sink"]
_Acks = Annotated[
    Literal["all", "1", "0"] | Late, BeforeValidator(lambda v: "all" if str(v) == "-1" else str(v))
]


class PerformanceProfile(Options):
    """How much is fetched and sent at once, and how often."""

    fetch_max_wait_ms: Count | None = Field(None, description="How long a broker waits to fill a fetch.")
    fetch_min_bytes: Count | None = Field(None, description="How much a broker collects before it answers.")
    fetch_max_bytes: Count | None = Field(None, description="The most that one fetch returns.")
    max_poll_records: Positive | None = Field(None, description="The most records that one poll returns.")
    buffer_size: Positive | None = Field(None, description="Bytes of the socket's buffer.")
    batch_bytes: Count | None = Field(None, description="Bytes that a producer collects for one request.")
    batch_size: Positive | None = Field(None, description="Rows that a sink writes at once.")
    linger_ms: Count | None = Field(None, description="How long a producer waits to fill a batch.")
    compression_type: Text | None = Field(None, description="How a producer compresses: lz4, zstd, none, ...")
    trigger: Duration | Late | None = Field(None, description="Time between two batches, such as '1 second'.")
    real_time: bool | Late | None = Field(
        None, description="Whether rows pass one by one, not in batches, where the statement allows it."
    )


class DeliveryProfile(Options):
    """How sure a delivery must be."""

    acks: _Acks | None = Field(None, description="Who must have a record: all, 1 or 0.")
    linger_ms: Count | None = Field(None, description="How long a producer waits to fill a batch.")
    retries: Count | None = Field(None, description="How often a producer tries again.")
    delivery_timeout_ms: Positive | None = Field(None, description="When a producer gives up on a record.")
    delivery_guarantee: Literal["exactly_once", "at_least_once"] | None = Field(
        None, description="exactly_once or at_least_once."
    )

    @model_validator(mode="after")
    def _exactly_once_needs_all(self) -> DeliveryProfile:
        if self.delivery_guarantee == "exactly_once" and self.acks in ("0", "1"):
            raise ValueError("delivery_guarantee 'exactly_once' needs acks 'all'")
        return self


_CONSUMER = {
    "fetch_max_wait_ms": "fetch.max.wait.ms",
    "fetch_min_bytes": "fetch.min.bytes",
    "fetch_max_bytes": "fetch.max.bytes",
    "max_poll_records": "max.poll.records",
    "buffer_size": "receive.buffer.bytes",
}
_PRODUCER = {
    "buffer_size": "send.buffer.bytes",
    "batch_bytes": "batch.size",
    "linger_ms": "linger.ms",
    "compression_type": "compression.type",
    "acks": "acks",
    "retries": "retries",
    "delivery_timeout_ms": "delivery.timeout.ms",
}
_OURS = {
    "source": ("trigger", "real_time"),
    "sink": ("trigger", "real_time", "batch_size", "delivery_guarantee"),
}

Profile = TypeVar("Profile", PerformanceProfile, DeliveryProfile)


@dataclass(frozen=True)
class Effect:
    """One setting that a profile makes: in `group` (`consumer`, `producer`), or one of ours."""

    group: str
    key: str
    value: Value


@dataclass(frozen=True)
class Profiles:
    """All profiles by name: the built-in ones, with those of the project and of a file over them."""

    performance: Mapping[str, PerformanceProfile]
    delivery: Mapping[str, DeliveryProfile]
    tree: Node

    def over(self, *roots: Node) -> Profiles:
        """These, with the `performance_profiles:` and `delivery_profiles:` of `roots` over them."""
        tree = self.tree
        for root in roots:
            tree = merge(tree, root.with_items({k: v for k, v in root.items.items() if k in tree.items}))
        return _checked(tree)

    def effects(self, kind: str, name: str, role: Role, at: Place | None = None) -> Iterator[Effect]:
        """What the profile `name` sets on a source or a sink; `kind` is `performance` or `delivery`."""
        known = self.performance if kind == "performance" else self.delivery
        if name not in known:
            hint = did_you_mean(name, known)
            raise OptionError("unknown-profile", f"there is no {kind} profile '{name}'", at=at, hint=hint)
        group, names = ("consumer", _CONSUMER) if role == "source" else ("producer", _PRODUCER)
        written = self.tree.items[f"{kind}_profiles"].items[name].items
        for field, value in known[name].model_dump(exclude_none=True).items():
            if field in names:
                yield Effect(group, names[field], value)
            elif field in _OURS[role]:
                yield Effect("", field, written[field].plain())


@dataclass(frozen=True)
class Defaults:
    """The profiles there are, and those that hold where a file chooses none."""

    profiles: Profiles
    performance: Setting | None = None
    delivery: Setting | None = None


@lru_cache(maxsize=1)
def built_in() -> Profiles:
    return _checked(parse(BUILT_IN, "built-in profiles"))


def _checked(tree: Node) -> Profiles:
    return Profiles(
        _each(tree, "performance_profiles", PerformanceProfile),
        _each(tree, "delivery_profiles", DeliveryProfile),
        tree,
    )


def _each(tree: Node, key: str, model: type[Profile]) -> dict[str, Profile]:
    require_map(tree.items[key], f"'{key}'")
    return {name: check(model, child, f"profile '{name}'") for name, child in tree.items[key].items.items()}
