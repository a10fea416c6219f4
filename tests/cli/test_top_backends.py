"""`penstock top` on each backend: known traffic on real streams, and what is told of it."""

from __future__ import annotations

import asyncio
import json

import pytest
from textual.widgets import RichLog

from penstock.cli.top import command
from penstock.cli.top.columns import COLOURS
from penstock.cli.top.opened import Opened
from penstock.cli.top.table import Rows
from penstock.streams import Consumer, Description
from tests.cli.backends import Backend
from tests.cli.command import Penstock
from tests.cli.driving import driven
from tests.waiting import PATIENCE


def described(backend: Backend, stream: str) -> Description:
    with backend.streamer.admin() as admin:
        return admin.describe(stream)


def read(consumer: Consumer, count: int) -> None:
    """Receives so many messages, and says that they are processed."""
    left = count
    while left:
        got = consumer.batch(left, PATIENCE)
        assert got, f"{left} of {count} messages did not come"
        left -= len(got)
    consumer.commit()


def test_rates_shards_and_lag_are_those_of_the_traffic(backend: Backend) -> None:
    orders, quiet = backend.make("orders", shards=2), backend.make("quiet")
    shards = backend.shards(2)
    tells = backend.tells

    async def test() -> None:
        async with driven(backend.at(orders, quiet)) as top:
            await top.look()
            row = top.row(orders)
            assert (row["state"], row["msg/s"], row["message"]) == ("", "0", "")
            assert row["shards"] == f"{shards}:{' -' * shards}"
            assert (row["cons"], row["lag"]) == ("0" if tells.consumers else "-", "-")
            backend.send(orders, 30)
            await top.look(2)
            with backend.streamer.consumer(orders, mode="repeat", group="readers") as consumer:
                read(consumer, 30)
                backend.send(orders, 40)
                read(consumer, 12)
                await top.look(4)
                row = top.row(orders)
            assert row["msg/s"] == "10"
            assert row["message"].startswith('{"n": ')
            assert row["lag"] == "28"
            assert row["cons"] == ("1" if tells.consumers else "-")
            assert row["prod"] == ("0" if tells.producers else "-")
            assert row["bytes/s"].startswith("~") is not tells.exact_bytes
            totals = [line.split() for line in top.lines("#throughput")]
            assert totals[0] == ["second", "minute", "hour"]
            assert totals[1] == ["messages", "10", "~700", "~42.0K"]
            lasts = [str(shard.last) for shard in described(backend, orders).shards]
            view = next(view for view in top.top.query_one(Rows).views if view.name == orders)
            assert view.told is not None
            assert [str(shard.last) for shard in view.told.shards] == lasts
            assert sum(shard.produced for shard in view.told.shards) == 70
            assert row["shards"].startswith(f"{shards}: {lasts[0]}"[: len(row["shards"]) - 1])
            assert lasts[-1] in "  ".join(top.lines("#strip"))
            assert top.row(quiet)["msg/s"] == "0"

    asyncio.run(test())


def test_what_bursts_and_what_is_stale_stands_out_by_word_and_colour(backend: Backend) -> None:
    busy, dead, empty = (backend.make(word) for word in ("busy", "dead", "empty"))
    backend.send(dead, 3)

    async def test() -> None:
        async with driven(backend.at(busy, dead, empty), stale=60) as top:
            await top.look()
            for _ in range(8):
                backend.send(busy, 20)
                await top.look(8)
            assert top.row(busy)["state"] == ""
            assert top.row(dead)["state"] == "stale"
            assert top.row(empty)["state"] == ""
            backend.send(busy, 60)
            await top.look(8)
            assert top.row(busy)["state"] == "bursting"
            assert COLOURS["bursting"].endswith(top.colours(busy)["bursting"])
            assert COLOURS["stale"].endswith(top.colours(dead)["stale"])
            assert "1 bursting  1 stale" in top.lines("#title")[0]
            backend.send(dead, 1)
            await top.look(6)
            assert top.row(busy)["state"] == ""
            assert top.row(dead)["state"] == ""

    asyncio.run(test())


def test_an_opened_stream_shows_messages_as_they_come(backend: Backend) -> None:
    orders = backend.make("orders", shards=2)
    backend.send(orders, 5)

    async def test() -> None:
        async with driven(backend.at(orders)) as top:
            await top.look()
            await top.press("enter")
            screen = top.top.screen
            assert isinstance(screen, Opened)
            log = screen.query_one(RichLog)
            await top.until(lambda: log.border_subtitle == "live", "its consumer")
            before = len(log.lines)
            backend.send(orders, 3)
            await top.until(lambda: len(log.lines) == before + 3, "three messages")
            assert all('{"n": ' in line.text for line in log.lines)
            await top.press("p")
            backend.send(orders, 2)
            await top.until(lambda: len(screen._held) == 2, "two messages, held back")
            assert len(log.lines) == before + 3
            await top.press("p")
            assert len(log.lines) == before + 5
            await top.look()
            shards = [line.split() for line in top.lines("#shards Static")]
            assert shards[0] == ["shard", "first", "last", "ever", "stored"]
            assert sum(int(line[-1]) for line in shards[1 : 1 + backend.shards(2)]) == 10
            if backend.tells.consumers:
                assert any("consumer" in line for line in top.lines("#clients Static"))
            await top.press("c")
            assert len(log.lines) == 0
            await top.press("escape")
            assert isinstance(top.top.screen_stack[-1], type(top.top.screen_stack[0]))
            assert screen.tail.ended(PATIENCE)
            await top.look()
            if backend.tells.consumers:
                assert top.row(orders)["cons"] == "0"

    asyncio.run(test())


def test_once_tells_scripts_all(
    penstock: Penstock, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders, quiet = backend.make("orders", shards=2), backend.make("quiet")
    tells = backend.tells
    with (
        backend.streamer.consumer(orders, mode="repeat", group="readers") as consumer,
        backend.streamer.producer(quiet),
    ):
        backend.send(orders, 5)
        read(consumer, 5)
        monkeypatch.setattr(command, "sleep", lambda _: backend.send(orders, 20))
        result = penstock("top", backend.at(orders, quiet), "--once", "--json")
    assert result.code == 0, result.err
    told = {one["stream"]: one for one in result.json}
    assert set(told) == {orders, quiet}
    one = told[orders]
    assert (one["state"], one["uri"].partition(":")[0]) == (None, backend.name)
    assert one["messages"]["second"] * one["watched_seconds"] == pytest.approx(20)
    assert one["messages"]["minute"] == pytest.approx(one["messages"]["second"] * 60)
    assert one["bytes"]["second"] > one["messages"]["second"] * 100
    assert one["bytes_are_estimated"] is not tells.exact_bytes
    assert len(one["shards"]) == backend.shards(2)
    assert sum(shard["produced"] for shard in one["shards"]) == 25
    assert json.loads(one["latest"]["text"])["n"] in range(20)
    assert one["lag"] == {"readers": 20}
    assert one["consumers"] == (1 if tells.consumers else None)
    assert one["producers"] == (0 if tells.producers else None)
    assert told[quiet]["producers"] == (1 if tells.producers else None)
    assert told[quiet]["latest"] is None
    assert told[quiet]["messages"] == {"second": 0, "minute": 0, "hour": 0}
