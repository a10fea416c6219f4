"""`penstock tap`, in a real shell, from real streams."""

from __future__ import annotations

import json
import os
import select
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import msgpack
import pytest

from penstock.streams import Client, Consumer
from tests.cli.command import Penstock
from tests.cli.shell import Terminal, bash, command, environment
from tests.streams.files import connect, store
from tests.waiting import PATIENCE, until

NOON = datetime(2026, 1, 31, 12, tzinfo=timezone.utc)
NEWS = [{"id": n, "amount": n * 50, "city": "Ulm" if n % 2 else None} for n in range(6)]
LINES = [json.dumps(news) for news in NEWS]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With a stream whose messages are an hour apart from each other."""
    (tmp_path / "streams").mkdir()
    with connect(f"{tmp_path}/streams/").producer("news") as producer:
        for news, line in zip(NEWS, LINES, strict=True):
            hours = timedelta(hours=news["id"] or 0)  # type: ignore[arg-type]
            producer.send(line, key=str(news["id"]), timestamp=NOON + hours, headers={"from": "press"})
    return tmp_path


def tap(folder: Path, *args: str) -> list[str]:
    done = command(folder, "tap", "-", "file://streams/news", *args)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode().splitlines()


def test_the_session_as_it_is_typed(folder: Path) -> None:
    with Terminal(folder) as shell:
        shell.type("penstock tap ./consumer file://streams/news &\n")
        until((folder / "consumer").is_fifo, "the pipe")
        shell.type("cat consumer > news.ndjson\n")
        whole = "".join(f"{line}\n" for line in LINES)
        got = folder / "news.ndjson"
        until(lambda: got.exists() and got.read_text(encoding="utf-8") == whole, "the messages")
        shell.type("\x03")  # cat would wait for more
        shell.type("kill %1\n")
        until(lambda: not os.path.lexists(folder / "consumer"), "the end of the pipe")
        shell.type("wait $!; echo ended with $?\n")
        shell.see("ended with 0")
        shell.type("exit\n")
        shell.end()


@pytest.mark.server
def test_the_session_on_kafka(tmp_path: Path, kafka: Any) -> None:
    uri = f"kafka://{kafka.bootstrap}/tap-news"
    kafka.create_topic("tap-news")
    kafka.produce("tap-news", [(str(n), line) for n, line in enumerate(LINES)])
    with Terminal(tmp_path) as shell:
        shell.type(f"penstock tap ./consumer {uri} &\n")
        until((tmp_path / "consumer").is_fifo, "the pipe")
        shell.type("cat consumer > news.ndjson\n")
        whole = "".join(f"{line}\n" for line in LINES)
        got = tmp_path / "news.ndjson"
        until(lambda: got.exists() and got.read_text(encoding="utf-8") == whole, "the messages")
        shell.type("\x03")
        shell.type("kill %1\n")
        until(lambda: not os.path.lexists(tmp_path / "consumer"), "the end of the pipe")
        shell.type("exit\n")
        shell.end()
    for args, wanted in (
        (["--no-follow", "--where", "amount > 100"], [3, 4, 5]),
        (["--from", "4", "--until", "now"], [4, 5]),
        (["--limit", "6", "--group", "tappers"], [0, 1, 2, 3, 4, 5]),
        (["--no-follow", "--group", "tappers"], []),
    ):
        done = command(tmp_path, "tap", "-", uri, *args)
        assert done.returncode == 0, done.stderr
        assert done.stdout.decode().splitlines() == [LINES[n] for n in wanted]


def test_what_one_reader_leaves_the_next_one_gets(folder: Path) -> None:
    done = bash(
        folder,
        """
        penstock tap ./consumer file://streams/news --no-follow &
        there consumer
        for n in 1 2 3; do (read line; echo "$line") < consumer; done
        cat consumer
        wait $!; echo $?
        """,
    )
    assert done.stdout.splitlines() == [*LINES, "0"], done.stderr
    assert not os.path.lexists(folder / "consumer")


def test_with_nobody_reading_it_waits_until_it_is_killed(folder: Path) -> None:
    with tapping(folder, "consumer") as process:
        until(lambda: consumers(folder), "its consumer", process)
        process.terminate()
        assert process.wait(PATIENCE) == 0
    assert os.listdir(folder) == ["streams"]


def test_many_lines_arrive_whole_and_in_order(folder: Path) -> None:
    lines = [f'{{"id":{n},"text":"{"x" * (n % 50)}"}}' for n in range(200_000)]
    with connect(f"{folder}/streams/").producer("many") as producer:
        for line in lines:
            producer.send(line)
    done = bash(
        folder,
        """
        penstock tap consumer file://streams/many --no-follow &
        there consumer
        cat consumer > piped; wait $!; echo $?
        penstock tap - file://streams/many --no-follow | cat > printed
        """,
    )
    assert done.stdout.splitlines() == ["0"], done.stderr
    for name in ("piped", "printed"):
        assert (folder / name).read_text(encoding="utf-8").splitlines() == lines


@pytest.mark.parametrize(
    ("args", "wanted"),
    [
        (["--no-follow"], [0, 1, 2, 3, 4, 5]),
        (["--limit", "2"], [0, 1]),
        (["--from", "4", "--no-follow"], [4, 5]),
        (["--from", "40", "--no-follow"], []),
        (["--from", "latest", "--no-follow"], []),
        (["--from", "2026-01-31T14:00", "--limit", "2"], [2, 3]),
        (["--from", "2026-01-31T16:00:00+01:00", "--no-follow"], [3, 4, 5]),
        (["--from", "2027-01-01", "--no-follow"], []),
        (["--until", "2026-01-31T13:30Z"], [0, 1]),
        (["--from", "2026-01-31T13:00", "--until", "2026-01-31T14:00"], [1, 2]),
        (["--until", "now", "--where", "amount > 100"], [3, 4, 5]),
        (["--where", "amount > 100", "--limit", "2"], [3, 4]),
        (["--until", "now", "--where", "city is not null AND NOT amount = 50"], [3, 5]),
        (["--until", "now", "--where", "missing > 1 or id in (0, 5)"], [0, 5]),
    ],
)
def test_which_messages_are_shown(folder: Path, args: list[str], wanted: list[int]) -> None:
    assert tap(folder, *args) == [LINES[n] for n in wanted]


def test_it_follows_until_its_reader_has_gone(folder: Path) -> None:
    with tapping(folder, "-", "--from", "latest") as process:
        assert process.stdout is not None
        shown = process.stdout

        def is_shown() -> bool:
            # Where it began is not to be seen from here, but what comes from then on is.
            store(folder / "streams", '{"id": 7}')
            return bool(select.select([shown], [], [], 0)[0])

        until(lambda: consumers(folder), "its consumer", process)
        until(is_shown, "a message", process)
        assert shown.readline() == '{"id": 7}\n'
        shown.close()
        assert process.wait(PATIENCE) == 0


@contextmanager
def tapping(folder: Path, path: str, *args: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        ["penstock", "tap", path, "file://streams/news", *args],
        cwd=folder, env=environment(), stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with process:
        try:
            yield process
        finally:
            process.kill()


def consumers(folder: Path) -> tuple[Client, ...]:
    with connect(f"{folder}/streams/").admin() as admin:
        return admin.describe("news").consumers or ()


def test_a_closed_pipe_ends_it_quietly(folder: Path) -> None:
    done = bash(folder, "penstock tap - file://streams/news | head -n 1; echo ${PIPESTATUS[0]}")
    assert done.stdout.splitlines() == [LINES[0], "0"]
    assert done.stderr == ""


@pytest.mark.parametrize("name", ["TERM", "INT"])
def test_a_signal_ends_it_with_0(folder: Path, name: str) -> None:
    done = bash(
        folder,
        f"""
        mkfifo full; exec 3<>full
        penstock tap - file://streams/news > full &
        read -u 3 line
        kill -{name} %1; wait $!; echo $?
        """,
    )
    assert done.stdout == "0\n", done.stderr


def test_with_meta_tells_all(folder: Path) -> None:
    (line,) = tap(folder, "--with-meta", "--limit", "1")
    assert json.loads(line) == {
        "stream": "news",
        "shard": 0,
        "sequence": 0,
        "timestamp": "2026-01-31T12:00:00+00:00",
        "key": "0",
        "headers": [["from", "press"]],
        "payload": NEWS[0],
    }


def test_a_group_goes_on_where_it_was(folder: Path) -> None:
    assert tap(folder, "--group", "readers", "--limit", "2") == LINES[:2]
    assert tap(folder, "--group", "readers", "--limit", "1", "--where", "amount > 100") == LINES[3:4]
    assert tap(folder, "--group", "readers", "--no-follow") == LINES[4:]
    assert tap(folder, "--group", "readers", "--no-follow") == []


def test_a_group_counts_as_received_only_what_somebody_has_read(folder: Path) -> None:
    with tapping(folder, "./consumer", "--group", "readers") as process:
        until(lambda: [c for c in consumers(folder) if c.shards], "its shard", process)
        process.terminate()
        assert process.wait(PATIENCE) == 0
    assert tap(folder, "--group", "readers", "--no-follow") == LINES


def test_a_group_refuses_a_time_to_end(folder: Path) -> None:
    done = command(folder, "tap", "-", "file://streams/news", "--group", "g", "--until", "2026-01-31")
    assert done.returncode == 2
    assert b"error[until-with-group]" in done.stderr


def test_formats_give_back_what_flux_took(folder: Path) -> None:
    given = {
        "csv": b'1,"a, b"\n2,"two\nlines"\n',
        "raw": b"\n a \n\xff\x00\n",
        "msgpack": msgpack.packb({"id": 1, "blob": b"\n"}) + msgpack.packb([2]),
        "ndjson": b'{"id": 1}\n"text"\n',
    }
    for format, content in given.items():
        uri = f"file://streams/{format}"
        assert command(folder, "flux", "-", uri, "--format", format, stdin=content).returncode == 0
        done = command(folder, "tap", "-", uri, "--format", format, "--no-follow")
        assert (done.returncode, done.stdout) == (0, content), format


def test_a_message_is_one_line_of_json(folder: Path) -> None:
    store(folder / "streams", '{\n  "id": 1\n}', stream="printed")
    done = command(folder, "tap", "-", "file://streams/printed", "--no-follow")
    assert done.stdout == b'{"id":1}\n'


def test_conditions_over_csv_name_columns(folder: Path) -> None:
    store(folder / "streams", "1,Ulm", "2,Bonn", stream="rows")
    args = ("--no-follow", "-f", "csv", "--columns", "id, city", "--where", "city = 'Bonn'")
    assert command(folder, "tap", "-", "file://streams/rows", *args).stdout == b"2,Bonn\n"


def test_other_kinds_of_csv_are_read_by_their_signs(folder: Path) -> None:
    store(folder / "streams", "1\t'Ulm\tSouth'", '2\t"Bonn', stream="rows")
    args = ("--no-follow", "-f", "csv", "--columns", "id,city", "--delimiter", "tab", "--quote", "'")
    uri = "file://streams/rows"
    done = command(folder, "tap", "-", uri, *args, "--where", "city = 'Ulm\tSouth'")
    assert done.stdout == b"1\t'Ulm\tSouth'\n"
    done = command(folder, "tap", "-", uri, *args, "--with-meta")
    assert [json.loads(line)["payload"]["city"] for line in done.stdout.splitlines()] == [
        "Ulm\tSouth",
        '"Bonn',
    ]


@pytest.mark.parametrize("more", [["--where", "amount > 1"], ["--skip-bad", "--with-meta"]])
def test_a_limit_with_a_choice_reads_as_many_at_a_time_as_else(
    penstock: Penstock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: list[str]
) -> None:
    (tmp_path / "streams").mkdir()
    left_out = "rain" if "--skip-bad" in more else '{"amount": 0}'
    store(tmp_path / "streams", *[left_out] * 1000, *(f'{{"amount": {n}}}' for n in range(2, 5)))
    asked: list[int] = []
    batch = Consumer.batch
    monkeypatch.setattr(Consumer, "batch", lambda self, *args: (asked.append(1), batch(self, *args))[1])
    assert penstock("tap", "-", "file://streams/news", "--no-follow", "--limit", "2", *more).code == 0
    assert len(asked) < 10


def test_what_cannot_be_read_is_told_or_skipped(folder: Path) -> None:
    store(folder / "streams", '{"id": 1}', b"\x81\xff", '{"id": 2}', stream="mixed")
    args = ("tap", "-", "file://streams/mixed", "--no-follow", "--with-meta")
    done = command(folder, *args)
    assert done.returncode == 2
    assert b"error[unreadable-message]: the message at mixed, shard 0, sequence 1 is not JSON" in done.stderr
    done = command(folder, *args, "--skip-bad")
    assert [json.loads(line)["payload"]["id"] for line in done.stdout.splitlines()] == [1, 2]
    assert b"skipped: the message at mixed, shard 0, sequence 1" in done.stderr
    raw = command(folder, *args, "--format", "raw", "--from", "1")
    assert json.loads(raw.stdout.splitlines()[0])["payload"] == {"base64": "gf8="}


def test_a_terminal_gets_colours_and_no_control_characters(folder: Path) -> None:
    store(folder / "streams", '{"id": 7, "text": "rain\\u001b[2J", "gone": null}', stream="one")
    with Terminal(folder, "penstock", "tap", "-", "file://streams/one", "--no-follow") as terminal:
        assert terminal.end() == 0
    assert '\x1b[34m\x1b[1m"id"\x1b[0m: \x1b[36m7\x1b[0m' in terminal.shown
    assert "one/0@0" in terminal.shown
    assert "\x1b[2J" not in terminal.shown
    store(folder / "streams", "rain\x1b[2J\x9b", stream="raw")
    with Terminal(
        folder, "penstock", "tap", "-", "file://streams/raw", "-f", "raw", "--no-follow"
    ) as terminal:
        assert terminal.end() == 0
    assert "\x1b[2J" not in terminal.shown
    assert "rain\N{REPLACEMENT CHARACTER}[2J" in terminal.shown


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["--from", "yesterday"], "error[bad-start]: 'yesterday' is no place in a stream"),
        (["--until", "soon"], "error[bad-until]: 'soon' is no time"),
        (["--until", "now", "--follow"], "error[usage]"),
        (["--columns", "a"], "error[usage]: --columns is for CSV"),
        (["--quote", "'"], "error[usage]: --quote is for CSV"),
        (["--format", "xml"], "error[unknown-format]"),
        (["--where", "amount >"], "error[bad-condition]"),
    ],
)
def test_wrong_arguments_are_2(folder: Path, args: list[str], told: str) -> None:
    done = command(folder, "tap", "-", "file://streams/news", *args)
    assert done.returncode == 2
    assert told in done.stderr.decode()


def test_a_stream_that_is_not_there_is_told(folder: Path) -> None:
    done = command(folder, "tap", "./consumer", "file://streams/olds")
    assert done.returncode == 2
    assert b"error[missing-stream]" in done.stderr
    assert not os.path.lexists(folder / "consumer")
