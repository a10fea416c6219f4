"""How streams are named in a cluster, and which topic holds each shard."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote

from penstock.errors import InputError
from penstock.uri import Uri

PARTITION = re.compile(r"-partition-(\d+)$")
_NAMED = re.compile(r"[^/,\s]+")


@dataclass(frozen=True)
class Namespace:
    """Where streams are that are given by their last name."""

    tenant: str = "public"
    name: str = "default"

    def __str__(self) -> str:
        return f"{self.tenant}/{self.name}"

    def topic(self, stream: str) -> Topic:
        """A stream is the name of a topic, or `tenant/namespace/topic`."""
        parts = stream.removeprefix("persistent://").split("/")
        if not all(_NAMED.fullmatch(part) for part in parts) or len(parts) not in (1, 3):
            raise InputError(
                "bad-name", f"no name of a Pulsar topic: '{stream}'", hint="topic, or tenant/namespace/topic"
            )
        where = self if len(parts) == 1 else Namespace(parts[0], parts[1])
        return Topic(stream, where, parts[-1])


@dataclass(frozen=True)
class Topic:
    stream: str
    """Its name, as it was given."""
    namespace: Namespace
    name: str
    partitions: int = 0
    """0 for a topic that has none, and is one shard by itself."""

    @property
    def full(self) -> str:
        return f"persistent://{self.namespace}/{self.name}"

    @property
    def path(self) -> str:
        """Of the admin REST."""
        return f"persistent/{self.namespace}/{quote(self.name, safe='')}"

    def shards(self) -> list[Topic]:
        """The topic of each shard."""
        if not self.partitions:
            return [self]
        names = [f"{self.name}-partition-{number}" for number in range(self.partitions)]
        return [Topic(self.stream, self.namespace, name) for name in names]


def located(uri: Uri) -> tuple[Namespace, tuple[str, ...]]:
    """The namespace and the streams of a URI's path: `[tenant/namespace/]topic[,topic]`."""
    *where, last = uri.path.split("/")
    streams = tuple(name for name in last.split(",") if name)
    if not where:
        return Namespace(), streams
    if len(where) != 2 or not all(_NAMED.fullmatch(part) for part in where):
        raise InputError(
            "bad-uri",
            f"expected a topic, or tenant/namespace/topic, in '{uri}'",
            hint="pulsar://host:6650/tenant/namespace/topic",
        )
    return Namespace(*where), streams
