"""Which backend a URI's scheme belongs to, found by the entry points of the group `penstock.streams`.

A point's name is a scheme, so that only the backend that is asked for is loaded.
"""

from __future__ import annotations

from importlib.metadata import entry_points

from penstock.errors import InputError, SetupError, did_you_mean
from penstock.streams.base import Streamer
from penstock.uri import Uri

GROUP = "penstock.streams"


def connect(uri: str) -> Streamer:
    """The streams that a URI names: `kafka://localhost:9092`, `file:///var/streams/news`."""
    parsed = Uri.parse(uri)
    points = entry_points(group=GROUP)
    found = {point.value: point for point in points.select(name=parsed.scheme)}
    if not found:
        known = sorted(f"{point.name}://" for point in points)
        hint = did_you_mean(f"{parsed.scheme}://", known)
        raise InputError("unknown-scheme", f"no streams are known at '{parsed}'", hint=hint)
    if len(found) > 1:
        raise SetupError("two-backends", f"several packages bring {parsed.scheme}://: {', '.join(found)}")
    backend = next(iter(found.values())).load()
    streamer: Streamer = backend(parsed)
    return streamer
