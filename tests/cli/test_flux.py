"""`penstock flux`, in a real shell, into real streams."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.streams.framing import JsonLines
from tests.cli.shell import Terminal, bash, command
from tests.streams.files import connect, store, stored, there
from tests.waiting import until

NEWS = [{"id": n, "title": f"Rain in Ulm, {n}", "city": {"name": "Ulm"}} for n in range(3)]
LINES = [json.dumps(news) for news in NEWS]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "streams").mkdir()
    (tmp_path / "news.ndjson").write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    return tmp_path


def streams(folder: Path) -> Path:
    return folder / "streams"


def test_the_session_as_it_is_typed(folder: Path) -> None:
    with Terminal(folder) as shell:
        shell.type("penstock flux ./producer file://streams/news &\n")
        until((folder / "producer").is_fifo, "the pipe")
        assert stat.S_IMODE((folder / "producer").stat().st_mode) == 0o600
        shell.type("cat news.ndjson > producer\n")
        shell.type("kill %1\n")
        until(lambda: not os.path.lexists(folder / "producer"), "the end of the pipe")
        shell.type("wait $!; echo ended with $?\n")
        shell.see("ended with 0")
        shell.type("exit\n")
        shell.end()
    assert stored(streams(folder)) == LINES


@pytest.mark.server
def test_the_session_on_kafka(folder: Path, kafka: Any) -> None:
    with Terminal(folder) as shell:
        shell.type(f"penstock flux ./producer kafka://{kafka.bootstrap}/flux-news --key id &\n")
        until((folder / "producer").is_fifo, "the pipe")
        shell.type("cat news.ndjson > producer\n")
        shell.type("kill %1\n")
        until(lambda: not os.path.lexists(folder / "producer"), "the end of the pipe")
        shell.type("wait $!; echo ended with $?\n")
        shell.see("ended with 0")
        shell.type("exit\n")
        shell.end()
    rows = [(row.key, row.value) for row in kafka.rows("flux-news")]
    assert rows == [(b"%d" % n, line.encode()) for n, line in enumerate(LINES)]


@pytest.mark.parametrize("name", ["TERM", "INT", "HUP", "QUIT"])
def test_what_is_in_the_pipe_is_stored_before_a_signal_ends_it(folder: Path, name: str) -> None:
    done = bash(
        folder,
        f"""
        penstock flux ./producer file://streams/news &
        there producer
        exec 3> producer  # which waits until the other end is open
        kill -STOP %1
        cat news.ndjson >&3; exec 3>&-
        kill -{name} %1; kill -CONT %1; wait $!; echo $?
        """,
    )
    assert done.stdout.splitlines()[-1] == "0", done.stderr
    assert stored(streams(folder)) == LINES
    assert not os.path.lexists(folder / "producer")


def test_writers_come_and_go(folder: Path) -> None:
    done = bash(
        folder,
        """
        penstock flux ./producer file://streams/news --format raw &
        there producer
        for n in 1 2 3 4 5 6 7 8 9; do echo $n > producer; done
        printf 'no line feed' > producer
        until grep -aqr 'no line feed' streams; do sleep 0.05; done
        (echo a; sleep 0.3; echo b) > producer
        kill %1; wait $!; echo $?
        """,
    )
    assert done.stdout.splitlines()[-1] == "0", done.stderr
    assert stored(streams(folder)) == [*"123456789", "no line feed", "a", "b"]


def test_many_lines_arrive_whole_and_in_order(folder: Path) -> None:
    lines = [f'{{"id":{n},"text":"{"x" * (n % 50)}"}}' for n in range(200_000)]
    (folder / "many.ndjson").write_text("\n".join(lines) + "\n", encoding="utf-8")
    done = bash(
        folder,
        """
        penstock flux ./producer 'file://streams/news?buffer=256kb' &
        there producer
        cat many.ndjson > producer; kill %1; wait $!; echo $?
        """,
    )
    assert done.stdout.splitlines()[-1] == "0", done.stderr
    assert stored(streams(folder)) == lines


def test_stdin_ends_it(folder: Path) -> None:
    done = bash(folder, "cat news.ndjson news.ndjson | penstock flux - file://streams/news --key city.name")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    with connect(f"{streams(folder)}/").consumer("news", mode="repeat") as consumer:
        got = there(consumer)
    assert [message.json() for message in got] == NEWS * 2
    assert {message.key for message in got} == {b"Ulm"}


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (b'{"id": 7', "is not JSON: expecting ',' delimiter"),
        (b"rain", "is not JSON: expected a value"),
        (b'{"id": 1} {"id": 2}', "is not JSON: more after the value"),
        (b'{"id": NaN}', "is not JSON: NaN is no value of JSON"),
        (b'{"id": "\xff"}', "is not JSON: 'utf-8' codec can't decode byte 0xff"),
        (b'{"other": 1}', "has no field 'id' for the key"),
    ],
)
def test_a_bad_line_is_told_and_loses_nothing_before_it(folder: Path, bad: bytes, why: str) -> None:
    given = b'{"id": 1}\n\n' + bad + b'\n{"id": 2}\n'
    done = command(folder, "flux", "-", "file://streams/news", "--key", "id", stdin=given)
    told = done.stderr.decode()
    assert done.returncode == 2
    assert f"error[bad-line]: line 3 {why}" in told
    assert "--> stdin:3:" in told
    assert "tail -n +3" in told
    assert stored(streams(folder)) == ['{"id": 1}']


LINE = st.one_of(
    st.binary(max_size=12),
    st.text('{}[]",:0123456789eE+-.aINfinty\\u \t\ud800é', max_size=14).map(
        lambda t: t.encode("utf-8", "replace")
    ),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=5,
    ).map(lambda value: json.dumps(value).encode()),
)


@given(st.lists(LINE | LINE.map(lambda line: b'{"a":%b}' % line), max_size=6))
def test_many_lines_at_once_are_taken_as_each_by_itself(lines: list[bytes]) -> None:
    bad: list[str] = []
    together = JsonLines("it", None, lambda failure: bad.append(failure.message))
    lines = b"\n".join(lines).split(b"\n")  # bytes may hold line feeds
    got = [*together.feed(b"\n".join(lines) + b"\n")]
    alone: list[str] = []
    one_by_one = JsonLines("it", None, lambda failure: alone.append(failure.message))
    assert got == [*one_by_one._one_by_one(lines)]
    assert bad == alone
    assert together.line == one_by_one.line


def test_bad_lines_can_be_skipped(folder: Path) -> None:
    done = command(folder, "flux", "-", "file://streams/news", "--skip-bad", stdin=b"1\nrain\n2\n{\n3")
    assert done.returncode == 0
    assert "skipped: line 2" in done.stderr.decode()
    assert "2 bad lines not sent" in done.stderr.decode()
    assert stored(streams(folder)) == ["1", "2", "3"]


def test_a_bad_line_in_a_pipe_ends_it_and_unlinks_the_pipe(folder: Path) -> None:
    done = bash(
        folder,
        """
        penstock flux ./producer file://streams/news &
        there producer
        printf '1\\nrain\\n' > producer; wait $!; echo $?
        """,
    )
    assert done.stdout.splitlines()[-1] == "2"
    assert "--> ./producer:2:1" in done.stderr
    assert stored(streams(folder)) == ["1"]
    assert not os.path.lexists(folder / "producer")


def test_half_a_line_is_not_taken_for_a_whole_one(folder: Path) -> None:
    done = bash(
        folder,
        """
        penstock flux ./producer file://streams/news &
        there producer
        exec 3> producer
        printf '12\\n34' >&3; kill %1; wait $!; echo $?
        """,
    )
    assert done.stdout.splitlines()[-1] == "1"
    assert "error[half-a-line]: stopped after line 1: 2 bytes" in done.stderr
    assert stored(streams(folder)) == ["12"]


@pytest.mark.parametrize("make", ["touch producer", "mkfifo producer", "ln -s nowhere producer"])
def test_what_is_there_is_never_taken_over(folder: Path, make: str) -> None:
    done = bash(folder, f"{make}; penstock flux producer file://streams/news; echo $?; ls producer")
    assert done.stdout.split() == ["2", "producer"]
    assert "error[file-exists]: producer is there already" in done.stderr


def test_a_pipe_that_somebody_replaced_stays(folder: Path) -> None:
    done = bash(
        folder,
        """
        penstock flux producer file://streams/news &
        there producer
        rm producer; echo mine > producer; kill %1; wait $!; cat producer
        """,
    )
    assert done.stdout.splitlines()[-1] == "mine"


def test_a_uri_that_names_no_stream_leaves_no_pipe(folder: Path) -> None:
    done = command(folder, "flux", "producer", "file://nowhere/at/all")
    assert done.returncode == 2
    assert b"error[no-stream]" in done.stderr
    assert not os.path.lexists(folder / "producer")


def test_csv_keeps_records_and_knows_its_header(folder: Path) -> None:
    given = b'id,text\r\n1,"a, b"\r\n\r\n2,"two\nlines"\r\nid,text\r\n3,""\r\n'
    done = command(
        folder, "flux", "-", "file://streams/news", "-f", "csv", "--header", "--key", "id", stdin=given
    )
    assert done.returncode == 0, done.stderr
    with connect(f"{streams(folder)}/").consumer("news", mode="repeat") as consumer:
        got = there(consumer)
    assert [m.csv(["id", "text"])["text"] for m in got] == ["a, b", "two\nlines", ""]
    assert [m.key for m in got] == [b"1", b"2", b"3"]


@pytest.mark.parametrize(
    ("given", "signs", "rows"),
    [
        (
            b"id\ttext\n1\ta, \"b\n\t\n2\t'two\n\tlines'\n",
            ("tab", "'"),
            ['1\ta, "b', "\t", "2\t'two\n\tlines'"],
        ),
        (b'id|text\n1|"a\n', ("|", ""), ['1|"a']),
        ("id\u00a7text\n1\u00a7a\n".encode(), ("\u00a7", '"'), ["1\u00a7a"]),
    ],
)
def test_other_kinds_of_csv_are_taken_by_their_signs(
    folder: Path, given: bytes, signs: tuple[str, str], rows: list[str]
) -> None:
    args = ("-f", "csv", "--header", "--key", "id", "--delimiter", signs[0], "--quote", signs[1])
    done = command(folder, "flux", "-", "file://streams/news", *args, stdin=given)
    assert done.returncode == 0, done.stderr
    with connect(f"{streams(folder)}/").consumer("news", mode="repeat") as consumer:
        got = there(consumer)
    assert [message.text() for message in got] == rows
    assert [message.key for message in got] == [row[:1].strip().encode() for row in rows]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (b"id,text\n1,a\n2\n", "line 3 has 1 fields, and the header 2"),
        (b'id,text\n1,"a\n', "line 2 opens a quote that is never closed"),
        (b'id,text\n1,"a"b\n', "line 2 is not CSV"),
        (b"a,b\n", "the header has no column 'id'"),
    ],
)
def test_bad_csv_is_told(folder: Path, given: bytes, told: str) -> None:
    done = command(
        folder, "flux", "-", "file://streams/news", "-f", "csv", "--header", "--key", "id", stdin=given
    )
    assert done.returncode == 2
    assert told in done.stderr.decode()


def test_messagepack_needs_nothing_between_values(folder: Path) -> None:
    packed = [msgpack.packb({"id": n, "blob": b"\n" * n}) for n in range(1000)]
    done = command(
        folder, "flux", "-", "file://streams/news", "-f", "msgpack", "--key", "id", stdin=b"".join(packed)
    )
    assert done.returncode == 0, done.stderr
    with connect(f"{streams(folder)}/").consumer("news", mode="repeat") as consumer:
        got = there(consumer)
    assert [m.bytes() for m in got] == packed
    assert got[7].key == b"7"
    cut = command(
        folder, "flux", "-", "file://streams/news", "-f", "msgpack", stdin=packed[0] + packed[1][:-1]
    )
    assert cut.returncode == 2
    assert b"value 2 is not MessagePack: it ends in the middle" in cut.stderr


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["--format", "jsn"], "error[unknown-format]"),
        (["--format", "raw", "--key", "a"], "error[usage]"),
        (["--header"], "error[usage]: --header is for CSV"),
        (["--format", "csv", "--key", "a"], "error[usage]"),
        (["--delimiter", ";"], "error[usage]: --delimiter is for CSV"),
        (["--format", "csv", "--delimiter", "::"], "error[usage]: --delimiter"),
        (["--format", "csv", "--delimiter", ";", "--quote", ";"], "error[usage]: --quote"),
    ],
)
def test_wrong_arguments_are_2(folder: Path, args: list[str], told: str) -> None:
    done = command(folder, "flux", "-", "file://streams/news", *args, stdin=b"")
    assert done.returncode == 2
    assert told in done.stderr.decode()


def test_a_stream_that_another_process_writes_is_told(folder: Path) -> None:
    store(streams(folder), "1")
    with connect(f"{streams(folder)}/").producer("news"):
        done = command(folder, "flux", "-", "file://streams/news", stdin=b"2\n")
    assert done.returncode in (1, 3)
    assert b"error[" in done.stderr
    assert stored(streams(folder)) == ["1"]
