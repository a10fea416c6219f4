"""A crash at any byte, and damage at any byte: whole blocks stay, half ones are cut, damage is told."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from penstock.errors import PenstockError
from penstock.streams.file.block import parse_header

from .files import connect, logs, store, stored, there

TEXTS = ["one", "two", "three", "four"]


def boundaries(log: Path) -> list[int]:
    """Where each block begins, and where the last one ends."""
    data, found = log.read_bytes(), [0]
    while found[-1] < len(data):
        header = parse_header(data, found[-1])
        assert header is not None
        found.append(found[-1] + header.size)
    return found


def copy_of(whole: Path) -> Path:
    shutil.rmtree(whole.parent / "copy", ignore_errors=True)
    return Path(shutil.copytree(whole, whole.parent / "copy"))


def goes_on(folder: Path, before: list[str]) -> None:
    """Reads what is there, and what is written then."""
    assert stored(folder) == before
    (place,) = store(folder, "more")
    assert place.sequence == len(before)
    assert stored(folder) == [*before, "more"]
    assert len(boundaries(logs(folder)[-1])) >= 2  # whole blocks, and nothing else


def test_a_crash_at_any_byte_of_the_last_blocks(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    store(whole, *TEXTS)
    (log,) = logs(whole)
    begins = boundaries(log)
    assert len(begins) == 5
    for length in range(begins[2], begins[4] + 1):
        copy = copy_of(whole)
        os.truncate(logs(copy)[0], length)
        goes_on(copy, TEXTS[: sum(end <= length for end in begins[1:])])


def test_a_crash_in_the_first_block_of_a_segment(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    store(whole, *TEXTS, query="?segment=1")
    assert len(logs(whole)) == 4
    for length in range(logs(whole)[-1].stat().st_size):
        copy = copy_of(whole)
        os.truncate(logs(copy)[-1], length)
        goes_on(copy, TEXTS[:3])


def test_a_changed_byte_at_the_end_is_a_block_that_was_not_finished(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    store(whole, *TEXTS)
    begins = boundaries(logs(whole)[0])
    for place in range(begins[3], begins[4]):
        copy = copy_of(whole)
        flip(logs(copy)[0], place)
        goes_on(copy, TEXTS[:3])


def test_a_changed_byte_in_the_middle_is_damage(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    store(whole, *TEXTS)
    begins = boundaries(logs(whole)[0])
    for place in range(begins[2], begins[3]):
        copy = copy_of(whole)
        log = logs(copy)[0]
        flip(log, place)
        with connect(f"{copy}/").consumer("news", mode="repeat") as consumer:
            assert [consumer.next(timeout=1).text() for _ in range(2)] == TEXTS[:2]  # type: ignore[union-attr]
            with pytest.raises(PenstockError) as refused:
                consumer.recv()
        with pytest.raises(PenstockError) as no_writer:
            store(copy, "more")
        for failure in (refused.value, no_writer.value):
            assert failure.code == "damaged-stream"
            assert f"{log} is damaged at byte {begins[2]}" in failure.message


def test_damage_is_told_of_segments_that_others_follow(tmp_path: Path) -> None:
    store(tmp_path, *TEXTS, query="?segment=1")
    os.truncate(logs(tmp_path)[1], 10)
    with connect(tmp_path).consumer("news", mode="repeat") as consumer:
        assert consumer.recv() is not None
        with pytest.raises(PenstockError, match="is damaged at byte 0"):
            consumer.recv()
        consumer.rewind(2)
        assert [m.text() for m in there(consumer)] == TEXTS[2:]


@pytest.mark.parametrize("garbage", [b"\0" * 5000, b"PSTK" * 1000, b"x"])
def test_what_is_no_block_at_the_end_is_cut(tmp_path: Path, garbage: bytes) -> None:
    store(tmp_path, *TEXTS)
    with logs(tmp_path)[0].open("ab") as file:
        file.write(garbage)
    goes_on(tmp_path, TEXTS)


def test_blocks_inside_a_payload_are_not_taken_for_blocks(tmp_path: Path) -> None:
    store(tmp_path / "other", *["x"] * 9)
    store(tmp_path, *TEXTS)
    before = logs(tmp_path)[0].stat().st_size
    inside = logs(tmp_path)[0].read_bytes() + logs(tmp_path / "other")[0].read_bytes()
    store(tmp_path, inside)
    os.truncate(logs(tmp_path)[0], logs(tmp_path)[0].stat().st_size - 1)
    assert logs(tmp_path)[0].stat().st_size > before
    goes_on(tmp_path, TEXTS)


def test_a_reader_that_waits_at_half_a_block_gets_what_replaces_it(tmp_path: Path) -> None:
    store(tmp_path, *TEXTS)
    os.truncate(logs(tmp_path)[0], logs(tmp_path)[0].stat().st_size - 1)
    with connect(tmp_path).consumer("news", mode="repeat") as consumer:
        assert len(there(consumer)) == 3
        assert consumer.recv() is None
        store(tmp_path, "another")
        assert [m.text() for m in there(consumer)] == ["another"]


def flip(path: Path, place: int) -> None:
    with path.open("r+b") as file:
        file.seek(place)
        (byte,) = file.read(1)
        file.seek(place)
        file.write(bytes([byte ^ 0x10]))
