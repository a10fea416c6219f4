"""What is made of looks at streams, with a clock that is moved by hand."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import InputError, SetupError
from penstock.streams import Client, Description, Record, Shard
from penstock.streams.meter import Throughput
from penstock.streams.watching import HISTORY, Board, Latest, Look, Snapshot, View, total

NOON = datetime(2026, 1, 31, 12, tzinfo=timezone.utc)
AWAY = SetupError("server-unreachable", "nobody answers")


def latest(at: datetime = NOON, size: int = 100, sequence: int | str = 0) -> Latest:
    return Latest(at, 0, sequence, "rain", size)


def described(*produced: int, size: int | None = None, first: int = 0, name: str = "news") -> Description:
    shards = tuple(
        Shard(n, first if count > first else None, count - 1 if count > first else None, count)
        for n, count in enumerate(produced)
    )
    return Description(name, shards, size=size)


class Watch:
    """A board with a clock, and one cluster."""

    def __init__(self, stale: float = 60) -> None:
        self.board = Board(timedelta(seconds=stale))
        self.now = NOON

    def after(self, seconds: float, *told: Description, newest: Latest | None = None) -> None:
        self.now += timedelta(seconds=seconds)
        self.board.take(Snapshot("file://x", tuple(Look(d.name, self.now, d, newest) for d in told)))

    def views(self) -> list[View]:
        return self.board.views(self.now)

    @property
    def view(self) -> View:
        (view,) = self.views()
        return view


def test_messages_of_all_shards_count() -> None:
    watch = Watch()
    watch.after(0, described(5, 10))
    watch.after(2, described(15, 14))
    assert watch.view.messages == Throughput(7, 420, 25200)
    assert watch.view.watched == 2
    assert watch.view.history == (7.0,)


def test_the_first_look_tells_what_is_there_and_no_rate() -> None:
    watch = Watch()
    told = replace(
        described(3, 4),
        producers=(Client("p"),),
        consumers=None,
        lag={"fast": 1, "slow": 7},
    )
    watch.after(0, told, newest=latest())
    view = watch.view
    assert view.messages == Throughput()
    assert view.history == ()
    assert (view.producers, view.consumers, view.lag) == (1, None, 7)
    assert view.latest == latest()
    assert view.state == ""
    assert replace(view, told=described(1)).lag is None


def test_bytes_are_what_is_stored_more() -> None:
    watch = Watch()
    watch.after(0, described(10, size=1000))
    watch.after(1, described(12, size=1400))
    assert watch.view.bytes == Throughput(400, 24000, 1_440_000)
    assert not watch.view.bytes_are_estimated


def test_bytes_are_estimated_where_old_messages_were_removed() -> None:
    watch = Watch()
    watch.after(0, described(10, size=1000))
    watch.after(1, described(20, size=1000, first=10))
    assert watch.view.bytes == Throughput(
        1000, 60_000, 3_600_000
    )  # ten, of 100 bytes as those that are stored
    assert watch.view.bytes_are_estimated


def test_bytes_are_estimated_by_the_latest_messages_where_ids_do_not_count() -> None:
    def told(count: int) -> Description:
        return Description("news", (Shard(0, "1-0", f"{count}-0", count),), size=123_456 * count)

    watch = Watch()
    watch.after(0, told(10), newest=latest(size=100, sequence="10-0"))
    assert watch.view.bytes_are_estimated
    watch.after(1, told(15), newest=latest(size=300, sequence="15-0"))
    assert watch.view.bytes is not None
    assert watch.view.bytes.second == 5 * 200
    assert watch.view.bytes_are_estimated


def test_bytes_are_not_told_where_nothing_tells_of_them() -> None:
    watch = Watch()
    watch.after(0, described(0))
    watch.after(1, described(0))
    assert watch.view.bytes is None


def test_a_message_is_measured_whole_and_shown_in_part() -> None:
    message = Record("news", 2, 7, NOON, b"x" * 5000, key=b"key", headers=(("from", b"press"),))
    found = Latest.of(message)
    assert found.size == 5000 + 3 + 4 + 5
    assert (found.shard, found.sequence, found.timestamp) == (2, 7, NOON)
    assert len(found.text) == 2000
    assert Latest.of(Record("news", 0, 0, NOON, b"\xff\x00")).text == "2 bytes"


def test_stale_is_what_had_messages_and_gets_none() -> None:
    watch = Watch(stale=60)
    watch.after(0, described(5), newest=latest(NOON))
    watch.now += timedelta(seconds=59)
    assert watch.view.state == ""
    watch.now += timedelta(seconds=1)
    assert watch.view.state == "stale"
    watch.after(0, described(6), newest=latest(NOON))  # also where its own time is an old one
    assert watch.view.state == ""
    watch.after(60, described(6), newest=latest(NOON))
    assert watch.view.state == "stale"


def test_a_stream_may_be_stale_at_first_sight() -> None:
    watch = Watch(stale=60)
    watch.after(0, described(5), newest=latest(NOON - timedelta(hours=1)))
    assert watch.view.state == "stale"


@pytest.mark.parametrize("newest", [latest(NOON + timedelta(days=1)), None])
def test_a_message_of_tomorrow_does_not_keep_a_stream_fresh(newest: Latest | None) -> None:
    watch = Watch(stale=60)
    watch.after(0, described(5), newest=newest)
    watch.now += timedelta(seconds=60)
    assert watch.view.state == "stale"


def test_an_empty_stream_is_never_stale() -> None:
    watch = Watch()
    watch.after(0, described(0))
    watch.now += timedelta(days=1)
    assert watch.view.state == ""


def test_a_burst_is_told_for_a_while() -> None:
    watch = Watch()
    watch.after(0, described(0))
    for n in range(1, 21):
        watch.after(1, described(n * 10))
    assert watch.view.state == ""
    watch.after(1, described(300))
    assert watch.view.state == "bursting"
    watch.after(4, described(300))
    assert watch.view.state == "bursting"
    watch.after(2, described(300))
    assert watch.view.state == ""


def test_a_stream_of_the_same_name_is_another_one() -> None:
    watch = Watch()
    watch.after(0, described(100, size=1000))
    watch.after(1, described(200, size=2000))
    watch.after(1, described(5, size=50))
    assert watch.view.messages == Throughput()
    watch.after(1, described(8, size=80))
    assert watch.view.messages.second == 3


def test_streams_come_and_go() -> None:
    watch = Watch()
    watch.after(0, described(1, name="b"), described(1, name="a"))
    assert [view.name for view in watch.views()] == ["a", "b"]
    watch.after(1, described(1, name="c"))
    assert [view.name for view in watch.views()] == ["c"]


def test_a_cluster_that_goes_away_keeps_its_streams_and_comes_back() -> None:
    watch = Watch()
    watch.after(0, described(0))
    watch.after(1, described(10))
    watch.board.take(Snapshot("file://x", failure=AWAY))
    view = watch.view
    assert (view.name, view.state, view.failure) == ("news", "away", AWAY)
    assert total([view]).messages == Throughput()
    assert total([view]).marks == {"away": 1}
    watch.after(9, described(100))
    assert watch.view.state == ""
    assert watch.view.messages.second == 10


def test_a_cluster_that_was_never_seen_is_a_line_of_its_own() -> None:
    board = Board()
    board.take(Snapshot("redis://x", failure=AWAY))
    (view,) = board.views(NOON)
    assert (view.cluster, view.name, view.state) == ("redis://x", "", "away")
    assert total([view]).streams == 0
    board.take(Snapshot("redis://x"))
    assert board.views(NOON) == []


def test_a_named_stream_that_is_missing_is_told_until_it_is_there() -> None:
    watch = Watch()
    missing = InputError("missing-stream", "there is no stream 'news'")
    watch.board.take(Snapshot("file://x", (Look("news", NOON, failure=missing),)))
    assert (watch.view.state, watch.view.failure) == ("away", missing)
    watch.after(1, described(1))
    assert watch.view.failure is None


def test_totals_add_up() -> None:
    watch = Watch()
    watch.after(0, described(0, name="a", size=0), described(0, name="b"), described(7, name="c"))
    watch.after(1, described(10, name="a", size=500), described(4, name="b"), described(7, name="c"))
    watch.after(1, described(30, name="a", size=700), described(4, name="b"), described(7, name="c"))
    summed = total(watch.views())
    assert summed.streams == 3
    assert summed.messages == Throughput(20, (30 + 4) * 30, (30 + 4) * 1800)
    assert summed.bytes is not None
    assert summed.bytes.second == 200
    assert summed.history == (14.0, 20.0)


def test_histories_of_younger_streams_end_with_the_others() -> None:
    one = View("x", "a", history=(1.0, 2.0, 3.0))
    other = View("x", "b", history=(10.0,))
    assert total([one, other]).history == (1.0, 2.0, 13.0)
    assert total([]).history == ()


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 100), st.integers(0, 1000)), min_size=1, max_size=300))
def test_nothing_is_counted_twice(steps: list[tuple[int, int]]) -> None:
    watch, count = Watch(), 0
    watch.after(0, described(0, size=0))
    for seconds, came in steps:
        count += came
        watch.after(seconds, described(count, size=count * 10))
    view = watch.view
    elapsed = sum(seconds for seconds, _ in steps)
    assert view.watched == elapsed
    assert len(view.history) == min(HISTORY, len(steps))
    assert view.history[-1] == view.messages.second
    assert view.bytes is None or view.bytes.minute == pytest.approx(view.messages.minute * 10)
    if elapsed <= 60:
        assert view.messages.minute == pytest.approx(count * 60 / elapsed)
