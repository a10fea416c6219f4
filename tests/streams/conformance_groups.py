"""What groups of consumers must do: go on where they were, and share the shards of a stream."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable

from penstock.streams import Consumer, Message, Place, Positions

from .subject import Subject, numbered, receive, receive_all, same_set, same_texts, send, texts


def goes_on_after_closing(subject: Subject) -> None:
    stream = subject.create()
    send(subject, stream, numbered(20))
    with subject.streamer() as streamer:
        with streamer.consumer(stream, mode="repeat", group="g") as consumer:
            same_texts(receive(subject, consumer, 8), numbered(8), "read first")
        with streamer.consumer(stream, mode="repeat", group="g") as consumer:
            # The eighth was received, but nobody said that it was processed.
            same_texts(receive(subject, consumer, 5), numbered(5, 7), "read after closing")
            consumer.commit()
        with streamer.consumer(stream, mode="repeat", group="g") as consumer:
            same_texts(receive_all(subject, consumer, 8), numbered(8, 12), "read after a commit")
        with streamer.consumer(stream, mode="repeat", group="g") as consumer:
            same_texts(receive_all(subject, consumer, 0), [], "read after all was asked for")


def goes_on_after_a_crash(subject: Subject) -> None:
    """What was processed and not committed may come again; what was not processed must."""
    stream = subject.create()
    send(subject, stream, numbered(20))
    with subject.streamer() as streamer:
        consumer = streamer.consumer(stream, mode="repeat", group="g")
        receive(subject, consumer, 3)
        subject.crash(consumer)
        consumer = streamer.consumer(stream, mode="repeat", group="g")
        got = receive(subject, consumer, 5)
        first = _first(got, 0, 2)
        same_texts(got, numbered(5, first), "read after a crash")
        consumer.commit()
        receive(subject, consumer, 9)
        subject.crash(consumer)
        with streamer.consumer(stream, mode="repeat", group="g") as again:
            got = receive_all(subject, again, 15 - first)
    first = _first(got, first + 5, first + 13)
    same_texts(got, numbered(20 - first, first), "read after a commit and a crash")


def _first(got: list[Message], least: int, most: int) -> int:
    assert got, "nothing came after a crash"
    first = int(got[0].text()[8:])
    assert least <= first <= most, f"message {first} is the first after a crash, expected {least} to {most}"
    return first


def gives_each_group_all(subject: Subject) -> None:
    stream = subject.create()
    send(subject, stream, numbered(10))
    with subject.streamer() as streamer:
        for group in ("one", "other"):
            with streamer.consumer(stream, mode="repeat", group=group) as consumer:
                same_texts(receive_all(subject, consumer, 10), numbered(10), f"by the group {group}")


def a_new_group_starts_where_it_is_told(subject: Subject) -> None:
    stream = subject.create()
    send(subject, stream, ["old"])
    with subject.streamer() as streamer:
        with streamer.consumer(stream, mode="repeat", group="g", start="latest") as consumer:
            assert consumer.next(timeout=subject.quiet) is None
            receive_all(subject, consumer, 0)
            send(subject, stream, ["new"])
            same_texts(receive(subject, consumer, 1), ["new"], "from the latest")
            consumer.commit()
        send(subject, stream, ["newer"])
        with streamer.consumer(stream, mode="repeat", group="g", start="earliest") as consumer:
            same_texts(receive_all(subject, consumer, 1), ["newer"], "after what was committed")


def tells_lag(subject: Subject) -> None:
    stream = subject.create()
    send(subject, stream, numbered(10))
    with subject.streamer() as streamer, streamer.admin() as admin:
        with streamer.consumer(stream, mode="repeat", group="g") as consumer:
            receive(subject, consumer, 4)
            consumer.commit()
            told = admin.describe(stream)
            assert told.lag.get("g") == 6, f"4 of 10 are processed, and the lag is {told.lag}"
            if told.consumers is not None:
                mine = [client for client in told.consumers if client.group == "g"]
                assert len(mine) == 1, f"one consumer is online, told of {told.consumers}"
        told = admin.describe(stream)
        assert told.lag.get("g") == 6, f"the consumer is away, and the lag is {told.lag}"
        if told.consumers is not None:
            assert [client for client in told.consumers if client.group == "g"] == []


def tells_lag_of_all_shards(subject: Subject) -> None:
    """Those that the group has not come to yet are to be read, too."""
    shards = 2 if "shards" in subject.required else 1
    stream = subject.create(shards=shards)
    places = [place for n in range(20) for place in send(subject, stream, [str(n)], key=f"k{n}")]
    assert len({place.shard for place in places}) == shards
    with subject.streamer() as streamer, streamer.admin() as admin:
        with streamer.consumer(stream, mode="repeat", group="g") as consumer:
            receive(subject, consumer, 1)
            consumer.commit()
        told = admin.describe(stream)
        assert told.lag.get("g") == 19, f"1 of 20 is processed, and the lag is {told.lag}"


def comes_to(subject: Subject, consumer: Consumer, place: Place) -> None:
    """Waits until the consumer knows that it has come so far, and nothing more comes meanwhile."""
    deadline = time.monotonic() + subject.patience
    while not consumer.reached(place):
        assert time.monotonic() < deadline, f"all is read, and {place} is never reached"
        same_texts(consumer.batch(timeout=0.05), [], "after all")


def tells_how_far_the_group_is(subject: Subject) -> None:
    stream = subject.create()
    *_, last = send(subject, stream, numbered(6))
    with subject.streamer() as streamer:
        with streamer.consumer(stream, mode="repeat", group="g") as consumer:
            receive(subject, consumer, 6)
            assert not consumer.reached(last), "reached, and the last one is not processed"
            consumer.commit()
            comes_to(subject, consumer, last)
        with streamer.consumer(stream, mode="repeat", group="g") as another:
            comes_to(subject, another, last)


def _until_both_read(
    subject: Subject, stream: str, members: list[Consumer], got: list[list[Message]], sent: list[str]
) -> None:
    """Sends messages until each member has received some of them."""
    deadline = time.monotonic() + 3 * subject.patience
    before = [len(some) for some in got]
    while any(len(some) == length for some, length in zip(got, before, strict=True)):
        assert time.monotonic() < deadline, "one of the members receives nothing"
        _send_spread(subject, stream, sent, 20)
        _poll(members, got, 0.5)


def _send_spread(subject: Subject, stream: str, sent: list[str], count: int) -> None:
    with subject.streamer() as streamer, streamer.producer(stream) as producer:
        for n in range(len(sent), len(sent) + count):
            sent.append(f"{n:04}")
            producer.send(sent[-1], key=f"key {n}")


def _poll(members: list[Consumer], got: list[list[Message]], seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for member, some in zip(members, got, strict=True):
            while (message := member.next(timeout=0.02)) is not None:
                some.append(message)


def _read_all(
    subject: Subject,
    members: list[Consumer],
    got: list[list[Message]],
    sent: list[str],
    before: list[Message],
) -> None:
    """Receives until every message that was sent has been seen, now or `before`."""
    deadline = time.monotonic() + 3 * subject.patience
    known = {m.text() for m in before}
    while missing := set(sent) - known - {m.text() for some in got for m in some}:
        assert time.monotonic() < deadline, f"{len(missing)} messages never came: {sorted(missing)[:3]}"
        _poll(members, got, 0.1)


def shares_shards(subject: Subject) -> None:
    """Two members share; all is read, and by one of them alone once they have settled."""
    stream = subject.create(shards=4)
    sent: list[str] = []
    got: list[list[Message]] = [[], []]
    with (
        subject.streamer() as streamer,
        streamer.consumer(stream, mode="repeat", group="g") as one,
        streamer.consumer(stream, mode="repeat", group="g") as other,
    ):
        members = [one, other]
        _until_both_read(subject, stream, members, got, sent)
        deadline = time.monotonic() + 3 * subject.patience
        while True:  # until they have settled
            try:
                _are_shared(subject, stream, members, sent, got)
                break
            except AssertionError:
                if time.monotonic() > deadline:
                    raise
        _are_shared(subject, stream, members, sent, got)


def _are_shared(
    subject: Subject, stream: str, members: list[Consumer], sent: list[str], got: list[list[Message]]
) -> None:
    """Each of some new messages is read once, and those of one shard by one member."""
    _read_all(subject, members, got, sent, [])
    _poll(members, got, subject.quiet)
    before, first = [len(some) for some in got], len(sent)
    _send_spread(subject, stream, sent, 40)
    _read_all(subject, members, got, sent, [])
    _poll(members, got, subject.quiet)
    late = [some[length:] for some, length in zip(got, before, strict=True)]
    same_set([m for some in late for m in some], sent[first:], "read by two that have settled")
    held = [{m.shard for m in some} for some in late]
    assert held[0].isdisjoint(held[1]), f"a shard is read by both: {held}"
    assert all(held), "one of the two reads nothing"


def follows_members(subject: Subject) -> None:
    """A member crashes, another comes: what there is goes on being read, and nothing is lost."""
    stream = subject.create(shards=4)
    sent: list[str] = []
    by_one: list[Message] = []
    by_other: list[Message] = []
    by_newcomer: list[Message] = []
    with subject.streamer() as streamer, streamer.consumer(stream, mode="repeat", group="g") as one:
        other = streamer.consumer(stream, mode="repeat", group="g")
        _until_both_read(subject, stream, [one, other], [by_one, by_other], sent)
        subject.crash(other)
        _send_spread(subject, stream, sent, 40)
        _read_all(subject, [one], [by_one], sent, by_other)
        before = by_one + by_other
        with streamer.consumer(stream, mode="repeat", group="g") as newcomer:
            late: list[Message] = []
            _until_both_read(subject, stream, [one, newcomer], [late, by_newcomer], sent)
            _read_all(subject, [one, newcomer], [late, by_newcomer], sent, before)
    for shard in range(4):
        order = texts(m for m in by_newcomer if m.shard == shard)
        assert order == sorted(order), f"shard {shard} came in another order"


def shares_a_position_store(subject: Subject) -> None:
    """Two members keep their effects in one database; one crashes. Each message has one effect."""
    stream = subject.create(shards=4)
    sent: list[str] = []
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE effects (text)")
    positions = Positions(database, "reader")
    seen: list[set[int]] = [set(), set()]
    with subject.streamer() as streamer:
        members = [
            streamer.consumer(stream, mode="exactly_once", group="g", positions=positions) for _ in range(2)
        ]
        deadline = time.monotonic() + 3 * subject.patience

        def take(living: list[Consumer]) -> None:
            assert time.monotonic() < deadline, "some messages never came"
            for member, shards in zip(living, seen, strict=False):
                while (message := member.next(timeout=0.05)) is not None:
                    shards.add(message.shard)
                    database.execute("INSERT INTO effects VALUES (?)", (message.text(),))
                    positions.keep(message)
                    database.commit()

        while not all(seen):
            _send_spread(subject, stream, sent, 20)
            take(members)
        subject.crash(members.pop())
        while database.execute("SELECT count(DISTINCT text) FROM effects").fetchone() != (len(sent),):
            take(members)
        members.pop().close()
    effects = [text for (text,) in database.execute("SELECT text FROM effects ORDER BY text")]
    database.close()
    assert effects == sent, f"{len(sent)} were sent, and there are {len(effects)} effects"


SHARING: tuple[Callable[[Subject], None], ...] = (shares_shards, follows_members)

GROUPS: tuple[Callable[[Subject], None], ...] = (
    goes_on_after_closing,
    goes_on_after_a_crash,
    gives_each_group_all,
    a_new_group_starts_where_it_is_told,
    tells_lag,
    tells_lag_of_all_shards,
    tells_how_far_the_group_is,
    *SHARING,
)
