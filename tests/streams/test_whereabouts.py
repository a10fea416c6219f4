"""Which servers a URI names, however it writes them."""

from __future__ import annotations

import pytest

from penstock.streams import connect
from penstock.streams.whereabouts import addresses


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("127.0.0.1", "127.0.0.1:6379"),
        ("localhost:6379", "127.0.0.1"),
        ("[::1]", "[::1]:6379"),
        ("LOCALHOST", "localhost"),
        ("10.0.0.1,10.0.0.2:6379", "10.0.0.2,10.0.0.3"),
        ("no.such.host.invalid", "No.Such.Host.invalid:6379"),
    ],
)
def test_servers_are_the_same_however_they_are_written(one: str, other: str) -> None:
    assert addresses(one, 6379) & addresses(other, 6379)


@pytest.mark.parametrize("other", ["127.0.0.1:6380", "127.0.0.2", "", "[::1]"])
def test_others_are_not(other: str) -> None:
    assert not addresses("127.0.0.1", 6379) & addresses(other, 6379)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("redis://127.0.0.1", "redis://127.0.0.1:6379?timeout=1s", True),
        ("redis://127.0.0.1?db=1", "redis://127.0.0.1", False),
        ("nats://127.0.0.1", "nats://127.0.0.1:4222", True),
        ("nats://me:secret@127.0.0.1", "nats://127.0.0.1", False),
        ("pulsar://127.0.0.1:6650/public/default/", "pulsar://127.0.0.1/", True),
        ("pulsar://127.0.0.1/public/other/", "pulsar://127.0.0.1/", False),
    ],
)
def test_streams_are_the_same_where_all_that_tells_them_apart_is(one: str, other: str, same: bool) -> None:
    assert bool(connect(one).places("news") & connect(other).places("news")) == same
