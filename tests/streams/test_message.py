"""Messages: what they are known by, and what their payloads say."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from penstock.errors import PenstockError
from penstock.streams import Message, Record

NOON = datetime(2024, 2, 3, 12, tzinfo=timezone.utc)


def message(payload: bytes = b"x", stream: str = "news", shard: int = 0, sequence: int | str = 7) -> Record:
    return Record(stream, shard, sequence, NOON, payload, b"k", (("a", b"1"),))


def test_has_all_that_was_sent() -> None:
    one = message()
    assert (one.stream, one.shard, one.sequence, one.timestamp) == ("news", 0, 7, NOON)
    assert (one.key, one.headers, one.payload, one.bytes()) == (b"k", (("a", b"1"),), b"x", b"x")


def test_is_known_by_where_it_stands() -> None:
    assert message() == message(b"another payload")
    assert len({message(), message(b"y"), message(shard=1), message(sequence=8), message(stream="old")}) == 4
    assert message(sequence=7) != message(sequence="7")
    assert message() != ("news", 0, 7)
    assert repr(message()) == "<Message news/0@7 of 1 bytes>"


@pytest.mark.parametrize(
    ("payload", "value"),
    [(b'{"a": [1, null]}', {"a": [1, None]}), ('"ü"'.encode(), "ü"), (b" 1.5 ", 1.5), (b"null", None)],
)
def test_reads_json(payload: bytes, value: object) -> None:
    assert message(payload).json() == value


def test_reads_csv() -> None:
    assert message(b'1,"a ""b"", c",').csv() == ["1", 'a "b", c', ""]
    assert message(b"1;'x;y'").csv(delimiter=";", quote="'") == ["1", "x;y"]
    assert message(b"1,2").csv(["a", "b"]) == {"a": "1", "b": "2"}
    assert message(b"").csv() == []


def test_reads_msgpack() -> None:
    import msgpack

    assert message(msgpack.packb({"a": b"\x00", "at": NOON}, datetime=True)).msgpack() == {
        "a": b"\0",
        "at": NOON,
    }


@pytest.mark.parametrize(
    ("payload", "read", "format"),
    [
        (b"\xff", Message.text, "UTF-8"),
        (b"{", Message.json, "JSON"),
        (b"\xff", Message.json, "JSON"),
        (b'"a', Message.csv, "CSV"),
        (b"\xc1", Message.msgpack, "MessagePack"),
        (b"\x92\x01", Message.msgpack, "MessagePack"),
    ],
)
def test_names_the_message_that_cannot_be_read(payload: bytes, read: object, format: str) -> None:
    assert callable(read)
    with pytest.raises(PenstockError) as refused:
        read(message(payload))
    assert refused.value.code == "unreadable-message"
    assert f"news, shard 0, sequence 7 is not {format}" in refused.value.message


def test_a_line_of_csv_with_other_columns_is_unreadable() -> None:
    with pytest.raises(PenstockError, match="unreadable-message"):
        message(b"1,2,3").csv(["a", "b"])
