"""Lines of stdin and stdout as messages, in processes with real pipes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable

import pytest

from penstock.errors import PenstockError
from penstock.streams.stdio import Stdio
from penstock.uri import Uri

OPEN = """
import asyncio, json, sys
from penstock.streams.stdio import Stdio
from penstock.uri import Uri

streamer = Stdio(Uri.parse("stdio://"))
"""


def run(program: str, given: bytes = b"") -> bytes:
    done = subprocess.run(
        [sys.executable, "-c", OPEN + program], input=given, capture_output=True, timeout=60
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def code_of(call: Callable[[], object]) -> str:
    with pytest.raises(PenstockError) as failed:
        call()
    return failed.value.code


def test_lines_are_messages_until_the_end() -> None:
    program = """
with streamer.consumer() as consumer, streamer.producer() as producer:
    for message in consumer:
        producer.send([message.stream, message.shard, message.sequence, message.text()])
    assert consumer.ended
    assert consumer.recv() is None
"""
    lines = run(program, b"one\n\nthree \xc3\xbc\nlast without an end").splitlines()
    assert [json.loads(line) for line in lines] == [
        ["stdio", 0, 1, "one"],
        ["stdio", 0, 2, ""],
        ["stdio", 0, 3, "three ü"],
        ["stdio", 0, 4, "last without an end"],
    ]


def test_async_for_ends_with_the_input() -> None:
    program = """
async def read():
    return [message.text() async for message in streamer.consumer("news", mode="repeat")]
print(asyncio.run(read()))
"""
    assert run(program, b"a\nb\n") == b"['a', 'b']\n"


def test_waiting_after_the_end_is_told() -> None:
    program = """
consumer = streamer.consumer()
print(consumer.next().text(), consumer.next(timeout=60))
try:
    consumer.next()
except Exception as failure:
    print(failure.code)
"""
    assert run(program, b"a\n") == b"a None\nended\n"


def test_a_line_is_given_as_soon_as_it_ends() -> None:
    program = """
consumer = streamer.consumer()
producer = streamer.producer(format="raw")
assert consumer.recv() is None
producer.send("ready").result()
for message in consumer:
    producer.send(b"got " + message.payload).result()
"""
    process = subprocess.Popen(
        [sys.executable, "-c", OPEN + program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        for line in (b"one\n", b"two\n"):
            process.stdin.write(line[:1])
            process.stdin.flush()
            process.stdin.write(line[1:])
            process.stdin.flush()
            assert process.stdout.readline() == b"got " + line
        process.stdin.close()
        assert process.wait(30) == 0


def test_many_lines_go_through_in_order() -> None:
    program = """
with streamer.consumer() as consumer, streamer.producer(format="raw") as producer:
    for message in consumer:
        while True:
            try:
                producer.send(message.payload)
                break
            except Exception as failure:
                assert failure.code == "buffer-full"
                producer.flush()
"""
    given = b"".join(b"%d %s\n" % (n, b"x" * (n % 3000)) for n in range(20_000))
    assert run(program, given) == given


def test_a_line_has_an_end() -> None:
    program = """
from penstock.streams import framing
framing.LONGEST = 1 << 20
consumer = streamer.consumer()
print(len(consumer.next().payload), len(consumer.next().payload))
for _ in range(2):
    try:
        consumer.next()
    except Exception as failure:
        print(failure.code, failure.at.line)
"""
    given = b"one\n%s\n%s\nmore\n" % (b"x" * 1_000_000, b"y" * 3_000_000)
    assert run(program, given) == b"3 1000000\nbad-line 3\nbad-line 3\n"


def test_a_reader_that_left_is_told() -> None:
    program = """
producer = streamer.producer()
sys.stdin.readline()
try:
    producer.send("x").result()
except Exception as failure:
    sys.exit(failure.code)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", OPEN + program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        process.stdin.write(b"\n")
        process.stdin.close()
        assert process.stderr.read() == b"closed\n"


def test_refuses_what_lines_cannot_do() -> None:
    program = """
def code_of(call):
    try:
        call()
    except Exception as failure:
        return failure.code

consumer = streamer.consumer()
calls = [
    lambda: streamer.producer().send("a\\nb"),
    lambda: streamer.producer(delivery="exactly_once"),
    lambda: streamer.consumer(group="g"),
    lambda: streamer.consumer(mode="exactly_once"),
    lambda: streamer.consumer(start=7),
    lambda: streamer.consumer("a", "b"),
    lambda: consumer.rewind(1),
    lambda: streamer.admin(),
]
print(*map(code_of, calls))
"""
    codes = run(program).decode().split()
    assert codes == [
        "bad-payload",
        "no-exactly-once",
        "no-groups",
        "no-replay",
        "no-replay",
        "one-stream",
        "no-replay",
        "no-admin",
    ]
    assert code_of(lambda: Stdio(Uri.parse("stdio://news"))) == "bad-uri"
