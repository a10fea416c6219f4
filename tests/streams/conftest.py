"""What tests of all backends share."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from penstock.streams import Streamer


@pytest.fixture
def stream() -> str:
    """A name that no stream has, nor had."""
    return f"mine-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def opened() -> Iterator[list[Streamer]]:
    """What a test puts here is closed after it."""
    streamers: list[Streamer] = []
    yield streamers
    for streamer in streamers:
        streamer.close()
