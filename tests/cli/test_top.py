"""`penstock top`: its screen and --once; what they tell of each backend is in test_top_backends.py."""

from __future__ import annotations

import asyncio
import re
import signal
import socket
import sys
from collections.abc import Coroutine
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import top_picture

from penstock.cli.top import command
from penstock.cli.top.opened import Opened
from penstock.cli.top.screen import Top
from penstock.cli.top.table import Rows
from penstock.errors import InputError, SetupError
from penstock.streams import connect
from penstock.streams.looking import Looker, Looking, now
from penstock.streams.watching import Board
from tests.cli.backends import DATABASE, Backend
from tests.cli.command import Penstock
from tests.cli.driving import Driven, driven
from tests.cli.shell import Terminal
from tests.servers.redis import Redis
from tests.waiting import PATIENCE


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(test)


def test_bytes_of_a_folder_are_what_it_stores_more(streams: Backend, tmp_path: Path) -> None:
    async def test() -> None:
        async with driven(streams.at()) as top:
            sizes = []
            for _ in range(2):
                streams.send("orders", 50)
                with streams.streamer.admin() as admin:
                    sizes.append(admin.describe("orders").size or 0)
                await top.look()
            (view,) = top.top.query_one(Rows).views
            assert view.bytes is not None
            assert view.bytes.second == sizes[1] - sizes[0]
            assert not view.bytes_are_estimated

    run(test())


@pytest.mark.server
def test_bytes_in_redis_are_estimated_and_said_to_be(redis: Redis) -> None:
    traffic = Backend("redis", f"redis://{redis.address}/", f"?db={DATABASE}")
    sized = traffic.called("sized")

    async def test() -> None:
        async with driven(traffic.at(sized)) as top:
            traffic.send(sized, 10)
            await top.look()
            traffic.send(sized, 10)
            await top.look()
            (view,) = top.top.query_one(Rows).views
            assert view.bytes is not None
            assert view.bytes.second == 10 * 102  # the payload and a key
            assert top.row(sized)["bytes/s"] == "~1020 B"

    run(test())
    traffic.close()


def test_nothing_for_a_shorter_time_is_not_stale(streams: Backend) -> None:
    streams.send("orders", 1)

    async def test() -> None:
        async with driven(streams.at(), stale=5) as top:
            await top.look(0)
            await top.look(4)
            assert top.row("orders")["state"] == ""
            # It comes by time alone, without a look.
            top.clock.now += timedelta(seconds=10)
            top.top.show()
            await top.pilot.pause()
            assert top.row("orders")["state"] == "stale"

    run(test())


async def three(streams: Backend, top: Driven) -> None:
    """Streams with 5, 20 and 1 message a second, of which one has three shards."""
    streams.make("cherry", shards=3)
    counts = {"apple": 5, "banana": 20, "cherry": 1}
    for name in counts:
        streams.send(name, 1)
    await top.look()
    for name, count in counts.items():
        streams.send(name, count)
    await top.look()


def test_it_sorts_by_keys_and_by_clicks(streams: Backend) -> None:
    async def test() -> None:
        async with driven(streams.at()) as top:
            await three(streams, top)
            assert top.names == ["banana", "apple", "cherry"]
            assert "msg/s▾" in top.lines("#heading")[0]
            await top.press("r")
            assert top.names == ["cherry", "apple", "banana"]
            assert "msg/s▴" in top.lines("#heading")[0]
            await top.press("left", "left")
            assert top.names == ["apple", "banana", "cherry"]
            assert "stream▴" in top.lines("#heading")[0]
            await top.press("left")
            assert "lag▾" in top.lines("#heading")[0]
            for clicks, names in ((1, "cab"), (2, "abc")):
                await top.pilot.click("#heading", offset=(top.lines("#heading")[0].index("shards"), 0))
                await top.pilot.pause()
                assert "".join(name[0] for name in top.names) == names, clicks

    run(test())


def test_the_cursor_stays_on_its_stream(streams: Backend) -> None:
    async def test() -> None:
        async with driven(streams.at()) as top:
            await three(streams, top)
            rows = top.top.query_one(Rows)
            assert rows.chosen is not None
            assert rows.chosen.name == "banana"
            await top.press("down", "r")
            assert rows.chosen.name == "apple"
            streams.send("apple", 100)
            await top.look()
            assert rows.chosen.name == "apple"
            assert "apple" in top.lines("#strip")[0]
            await top.press("end", "down", "j")
            assert rows.chosen == rows.views[-1]
            await top.press("pageup", "home", "up", "k")
            assert rows.chosen == rows.views[0]
            await top.pilot.click("#rows", offset=(3, 1))
            assert rows.chosen == rows.views[1]

    run(test())


def test_it_filters(streams: Backend) -> None:
    async def test() -> None:
        async with driven(streams.at()) as top:
            await three(streams, top)
            await top.press("slash", "A", "n", "a")
            assert top.names == ["banana"]
            assert "/ana" in top.lines("#title")[0]
            await top.press("enter", "r")  # which no longer goes into the text
            assert top.names == ["banana"]
            await top.press("escape")
            assert top.names == ["cherry", "apple", "banana"]
            await top.press("slash", "x", "y")
            assert top.names == []
            await top.press("escape")
            assert len(top.names) == 3
            await top.press("slash", "q", "p", "question_mark")
            assert top.top.is_running
            assert not top.top.paused

    run(test())


def test_it_pauses_and_rates_go_on(streams: Backend) -> None:
    async def test() -> None:
        async with driven(streams.at()) as top:
            await three(streams, top)
            await top.press("p")
            assert "paused" in top.lines("#title")[0]
            before = top.lines("#rows")
            for _ in range(3):
                streams.send("cherry", 60)
                await top.look(2)
                assert top.lines("#rows") == before
            await top.press("p")
            assert top.row("cherry")["msg/s"] == "30"
            assert top.names[0] == "cherry"

    run(test())


def test_leaving_from_an_opened_stream_closes_it(streams: Backend) -> None:
    streams.send("orders", 5)

    async def test() -> Opened:
        async with driven(streams.at()) as top:
            await top.look()
            await top.press("enter")
            screen = top.top.screen
            assert isinstance(screen, Opened)
            await top.press("q")
            return screen

    assert asyncio.run(test()).tail.ended(PATIENCE)


def test_help_tells_the_keys_and_the_words(streams: Backend) -> None:
    async def test() -> None:
        async with driven(streams.at()) as top:
            await top.press("question_mark")
            text = "\n".join(top.lines("#help Static"))
            for word in ("bursting", "stale", "sort by another column", "Enter"):
                assert word in text
            await top.look()  # goes on below
            await top.press("escape")
            assert top.names == []

    run(test())


@pytest.mark.parametrize("size", [(80, 24), (100, 30), (60, 10), (200, 50)])
def test_lines_are_as_wide_as_the_screen(streams: Backend, size: tuple[int, int]) -> None:
    streams.make("a stream with a very long name that nobody will ever type", shards=40)
    streams.send("名前", 3)

    async def test() -> None:
        async with driven(streams.at(), size=size) as top:
            await top.look()
            rows = top.top.query_one(Rows)
            assert {rows.render_line(y).cell_length for y in range(rows.size.height)} == {size[0]}
            if size[0] >= 80:
                assert "lag" in top.lines("#heading")[0]
                ends = [line.rstrip() for line in top.lines("#rows") if line.strip()]
                assert all(line.endswith("-") for line in ends)

    run(test())


@pytest.mark.server
def test_a_server_that_goes_away_is_told_in_the_row_and_comes_back(redis: Redis, streams: Backend) -> None:
    uri = f"redis://reader:secret-of-mine@{redis.address}/mine?db=0&timeout=2s"
    right = f"redis://{redis.address}/mine?timeout=2s"
    streams.send("orders", 1)
    with connect(right) as streamer, streamer.producer("mine") as producer:
        producer.send("one")

    async def test() -> None:
        async with driven(right, streams.at(), uri) as top:
            await top.look()
            assert top.row("mine")["state"] == ""
            assert top.names[:2] == ["mine@redis", "orders@file"]
            with redis.down():
                await top.look()
                rows = top.top.query_one(Rows)
                place = next(n for n, view in enumerate(rows.views) if view.name == "mine")
                line = rows.render_line(place).text
                assert "away" in line
                assert "no Redis server answers at" in line
                assert top.row("orders")["state"] == ""
            await top.look()
            assert top.row("mine")["state"] == ""
            # One that never let us in.
            shown = "\n".join([*top.lines("#rows"), *top.lines("#strip"), *top.lines("#title")])
            await top.press("end")
            shown += "\n".join(top.lines("#strip"))
            assert "refuses the credentials of user 'reader'" in shown
            assert "secret-of-mine" not in shown
            assert "secret-of-mine" not in top.top.export_screenshot()
            await top.press("enter")  # there is nothing to open
            assert not isinstance(top.top.screen, Opened)

    run(test())
    with redis.client() as client:
        client.delete("mine")


def test_a_stream_that_is_missing_is_told_until_it_is_there(streams: Backend) -> None:
    async def test() -> None:
        async with driven(f"{streams.at()}orders") as top:
            await top.look()
            assert "there is no stream 'orders'" in top.lines("#rows")[0]
            streams.send("orders", 4)
            await top.look()
            assert top.row("orders")["state"] == ""
            with streams.streamer.admin() as admin:
                admin.delete("orders")
            await top.look()
            assert top.row("orders")["state"] == "away"

    run(test())


def test_messages_do_not_steer_the_terminal(streams: Backend) -> None:
    with streams.streamer.producer("orders") as producer:
        producer.send("rain\x1b[2J\n[bold red]snow[/]\u202e\x9b")

    async def test() -> None:
        async with driven(streams.at(), size=(200, 30)) as top:
            await top.look()
            assert top.row("orders")["message"] == "rain [2J [bold red]snow[/]"
            assert "[bold red]snow[/]" in top.lines("#strip")[2]

    run(test())


def test_it_looks_by_itself_in_threads(streams: Backend) -> None:
    streams.send("orders", 5)

    async def test() -> None:
        looker = Looker(streams.at())
        looking = Looking([looker], 0.05)
        top = Top([looker], Board(), now, 0.05, looking)
        async with top.run_test(size=(120, 30)) as pilot:
            it = Driven(None, [looker], top, pilot)  # type: ignore[arg-type]
            rows = top.query_one(Rows)
            await it.until(lambda: [view.name for view in rows.views] == ["orders"], "a look")
            streams.send("orders", 7)
            await it.until(lambda: "1: 11" in it.lines("#rows")[0], "another one")
        top.show()  # a look that comes in late has nothing to draw on
        assert looking.ended(PATIENCE)

    run(test())


class Broken(Looker):
    def _looks(self, admin: Any) -> Any:
        raise ZeroDivisionError("of a backend")


def test_a_surprise_in_one_backend_keeps_nobody_from_looking(streams: Backend) -> None:
    streams.send("orders", 1)

    async def test() -> None:
        async with driven(streams.at()) as top:
            await top.look()
            top.lookers[0] = Broken(streams.at(), top.clock)
            await top.look()
            assert "ZeroDivisionError: of a backend" in top.lines("#rows")[0]

    run(test())


def test_once_prints_a_table(penstock: Penstock, streams: Backend) -> None:
    streams.make("orders", shards=2)
    streams.send("orders", 9)
    result = penstock("top", "file://streams/", "--once", "--interval", "10ms")
    assert result.code == 0
    lines = [line.split() for line in result.out.splitlines() if line.strip()]
    assert lines[0] == [
        "stream", "state", "msg/s", "bytes/s", "latest", "message", "shards", "prod", "cons", "lag",
    ]  # fmt: skip
    assert lines[2][0] == "orders"
    assert lines[-1][:2] == ["total:", "0"]


def test_once_with_no_streams_says_so(penstock: Penstock, streams: Backend) -> None:
    result = penstock("top", "file://streams/", "--once", "--interval", "10ms")
    assert (result.code, result.out, result.err) == (0, "", "there are no streams\n")


def test_once_tells_those_that_are_there_then_who_is_away(penstock: Penstock, streams: Backend) -> None:
    streams.send("orders", 1)
    away = "redis://reader:secret-of-mine@127.0.0.1:1/?timeout=1s"
    result = penstock("top", "file://streams/", away, "--once", "--json", "--interval", "10ms")
    assert result.code == 3
    first, last = result.json
    assert first["stream"] == "orders"
    assert last["error"]["code"] == "server-unreachable"
    assert "secret-of-mine" not in result.out + result.err


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (["pigeon://roof", "--once"], "unknown-scheme"),
        (["redis://", "--once"], "bad-uri"),
        (["websocket://127.0.0.1:1/news", "--once"], "no-admin"),
        (["file://streams/gone", "--once", "--interval", "1ms"], "missing-stream"),
        (["file://streams/", "--once", "--interval", "soon"], "bad-duration"),
        (["file://streams/", "--once", "--interval", "0s"], "bad-duration"),
        (["file://streams/", "--once", "--stale", "x"], "bad-duration"),
        (["file://streams/"], "usage"),
        (["--once"], "usage"),
    ],
)
def test_what_is_wrong_is_told(penstock: Penstock, streams: Backend, args: list[str], code: str) -> None:
    result = penstock("top", *args, "--json")
    assert result.code == 2
    assert result.json[-1]["error"]["code"] == code


def test_without_a_terminal_it_says_what_to_do(penstock: Penstock, streams: Backend) -> None:
    result = penstock("top", "file://streams/")
    assert result.code == 2
    assert "error[no-terminal]" in result.err


def test_without_textual_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "textual", None)
    with pytest.raises(SetupError, match="penstock\\[top\\]"):
        command._show([], Board(), 1.0)


@pytest.mark.parametrize("end", ["q", "\x03", signal.SIGTERM])
def test_on_a_terminal(streams: Backend, tmp_path: Path, end: str | signal.Signals) -> None:
    streams.send("orders", 5)
    with Terminal(tmp_path, "penstock", "top", "file://streams/", "--interval", "100ms") as terminal:
        terminal.see("orders")
        if isinstance(end, str):
            terminal.type(end)
        else:
            terminal.send(end)
        assert terminal.end() == 0
    # The terminal is as it was.
    assert "\x1b[?1049l" in terminal.shown


def test_who_never_answers_keeps_nobody_waiting(streams: Backend, tmp_path: Path) -> None:
    streams.send("orders", 5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        uri = f"redis://127.0.0.1:{silent.getsockname()[1]}/?timeout=10m"
        with Terminal(tmp_path, "penstock", "top", uri, "file://streams/", "-i", "100ms") as terminal:
            terminal.see("orders")
            terminal.type("q")
            assert terminal.end() == 0


def test_a_backend_says_itself_that_it_has_no_admin() -> None:
    with pytest.raises(InputError, match="websocket:// has no cluster to look after"):
        Looker("websocket://127.0.0.1:1/news")


def test_the_picture_in_the_docs_is_of_today(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """But for bytes, which go by how many messages a writer finds waiting, and names made of them."""
    monkeypatch.chdir(tmp_path)
    drawn = tmp_path / "top.svg"
    top_picture.main(file=str(drawn))
    here, docs = (
        [re.sub(r"terminal-\d+", "", line) for line in file.read_text().splitlines() if ">bytes<" not in line]
        for file in (drawn, top_picture.PICTURE)
    )
    assert here == docs, "python scripts/top_picture.py draws it anew"
