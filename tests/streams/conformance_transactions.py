"""What transactions must do: what is sent and what was read count together, or not at all."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from penstock.errors import PenstockError
from penstock.streams import Consumer, Message, Producer

from .subject import Subject, numbered, receive, receive_all, same_texts, send


def commits_transactions(subject: Subject) -> None:
    stream = subject.create()
    with subject.streamer() as streamer:
        with streamer.producer(stream, delivery="exactly_once") as producer:
            with producer.transaction():
                producer.send("kept 1")
                producer.send("kept 2")
            with contextlib.suppress(ZeroDivisionError), producer.transaction():
                producer.send("lost")
                raise ZeroDivisionError
            with producer.transaction():
                producer.send("kept 3")
        with streamer.consumer(stream, mode="repeat") as consumer:
            got = receive_all(subject, consumer, 3)
    same_texts(got, ["kept 1", "kept 2", "kept 3"], "of transactions")


def commits_transactions_in_asyncio(subject: Subject) -> None:
    source, target = subject.create(), subject.create()
    send(subject, source, numbered(6))

    async def copy() -> None:
        async with (
            subject.streamer() as streamer,
            streamer.aconsumer(source, mode="exactly_once", group="g") as consumer,
            streamer.aproducer(target, delivery="exactly_once") as producer,
        ):
            for fails in (True, False):
                with contextlib.suppress(ZeroDivisionError):
                    async with producer.atransaction(consumer):
                        for _ in range(6):
                            message = await consumer.anext(subject.patience)
                            assert message is not None
                            producer.send(message.text())
                        if fails:
                            raise ZeroDivisionError

    asyncio.run(asyncio.wait_for(copy(), 3 * subject.patience))
    same_texts(_all(subject, target), numbered(6), "in the target")


def shows_nothing_before_the_commit(subject: Subject) -> None:
    stream = subject.create()
    with (
        subject.streamer() as streamer,
        streamer.consumer(stream, mode="repeat") as reader,
        streamer.producer(stream, delivery="exactly_once") as producer,
    ):
        with producer.transaction():
            producer.send("inside")
            producer.flush(subject.patience)
            same_texts(receive_all(subject, reader, 0), [], "before the commit")
        same_texts(receive_all(subject, reader, 1), ["inside"], "after the commit")
        producer.send("outside")
        same_texts(receive_all(subject, reader, 1), ["outside"], "without a transaction")


def commits_positions_with_messages(subject: Subject) -> None:
    source, target = subject.create(), subject.create()
    send(subject, source, numbered(20))
    with subject.streamer() as streamer:
        consumer = streamer.consumer(source, mode="exactly_once", group="g")
        with streamer.producer(target, delivery="exactly_once") as producer:
            for _ in range(2):
                _copy(producer, consumer, receive(subject, consumer, 4))
            receive(subject, consumer, 3)
            subject.crash(consumer)
            same_texts(_all(subject, target), numbered(8), "in the target")
            with streamer.consumer(source, mode="exactly_once", group="g") as again:
                got = receive(subject, again, 5)
                same_texts(got, numbered(5, 8), "read after two transactions")
                _copy(producer, again, got)
                # What was not read in a transaction is not committed by closing.
                receive(subject, again, 2)
    with subject.streamer() as streamer, streamer.consumer(source, mode="exactly_once", group="g") as rest:
        same_texts(receive_all(subject, rest, 7), numbered(7, 13), "read after three transactions")
    same_texts(_all(subject, target), numbered(13), "in the target")


def rolls_back_positions_with_messages(subject: Subject) -> None:
    source, target = subject.create(), subject.create()
    send(subject, source, numbered(10))
    with subject.streamer() as streamer:
        with (
            streamer.consumer(source, mode="exactly_once", group="g") as consumer,
            streamer.producer(target, delivery="exactly_once") as producer,
        ):
            _copy(producer, consumer, receive(subject, consumer, 2))
            with contextlib.suppress(ZeroDivisionError), producer.transaction(consumer):
                for message in receive(subject, consumer, 4):
                    producer.send(message.payload)
                raise ZeroDivisionError
            same_texts(_all(subject, target), numbered(2), "after one that was rolled back")
            got = receive(subject, consumer, 3)
            same_texts(got, numbered(3, 2), "read again by the same consumer")
            with contextlib.suppress(ZeroDivisionError), producer.transaction(consumer):
                raise ZeroDivisionError
        with streamer.consumer(source, mode="exactly_once", group="g") as another:
            same_texts(receive_all(subject, another, 8), numbered(8, 2), "read again by another")
    same_texts(_all(subject, target), numbered(2), "in the target")


def shuts_out_who_was_replaced(subject: Subject) -> None:
    """A member is taken for dead in the middle of a transaction, another goes on: the first has no effect."""
    source, target = subject.create(), subject.create()
    send(subject, source, numbered(6))
    with subject.streamer() as first, subject.streamer() as second:
        consumer = first.consumer(source, mode="exactly_once", group="g")
        producer = first.producer(target, delivery="exactly_once")
        told = None
        try:
            with producer.transaction(consumer):
                for message in receive(subject, consumer, 4):
                    producer.send(f"dead {message.text()}")
                producer.flush(subject.patience)
                subject.crash(consumer)
                with (
                    second.consumer(source, mode="exactly_once", group="g") as successor,
                    second.producer(target, delivery="exactly_once") as replacing,
                ):
                    _copy(replacing, successor, receive(subject, successor, 6))
        except PenstockError as refused:
            told = refused.code
        assert told == "fenced", f"who was replaced is told {told}"
        with contextlib.suppress(PenstockError):
            producer.close()
    same_texts(_all(subject, target), numbered(6), "of one that was replaced and its successor")


def _copy(producer: Producer, consumer: Consumer, messages: list[Message]) -> None:
    with producer.transaction(consumer):
        for message in messages:
            producer.send(message.payload)


def _all(subject: Subject, stream: str) -> list[Message]:
    with subject.streamer() as streamer, streamer.consumer(stream, mode="repeat") as consumer:
        got: list[Message] = []
        while some := consumer.batch(timeout=2.0):
            got += some
    return got


TRANSACTIONS: tuple[Callable[[Subject], None], ...] = (
    commits_transactions,
    commits_transactions_in_asyncio,
    shows_nothing_before_the_commit,
    commits_positions_with_messages,
    rolls_back_positions_with_messages,
    shuts_out_who_was_replaced,
)
