"""Writers of a stream in a folder have numbers: what a lower one writes after a higher one has no effect."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import DataError
from penstock.streams.file.block import Batch
from penstock.streams.file.folder import StreamFolder

from .files import connect, logs, store, stored, there


def append(folder: Path, sequence: int, log: Path, *texts: str, fence: int = 1) -> None:
    """Writes blocks at the end of a log, as the first writer would, which has lost the right to."""
    stream = StreamFolder.open(folder, "news")
    with log.open("ab") as file:
        for number, text in enumerate(texts):
            batch = Batch(0, sequence + number)
            batch.payloads, batch.times = [text.encode()], [0]
            file.write(batch.encode(fence, stream=stream.number))


@pytest.mark.parametrize("rolled", [False, True])
def test_who_has_lost_the_right_to_write_is_refused(tmp_path: Path, rolled: bool) -> None:
    store(tmp_path, "a")
    store(tmp_path, "b")
    (log,) = logs(tmp_path)
    place = log.with_name(f"{2:020}.log") if rolled else log
    with connect(f"{tmp_path}/").consumer("news", mode="repeat") as reader:
        assert [message.text() for message in there(reader)] == ["a", "b"]
        append(tmp_path, 2, place, "x", "y")
        for _ in range(2):
            with pytest.raises(DataError) as refused:
                reader.recv()
            assert refused.value.code == "damaged-stream"
        # The next writer cuts what was never its stream's.
        assert [place.sequence for place in store(tmp_path, "c")] == [2]
        assert [message.text() for message in there(reader)] == ["c"]
    assert stored(tmp_path) == ["a", "b", "c"]


def test_what_a_writer_has_followed_is_not_cut(tmp_path: Path) -> None:
    store(tmp_path, "a")
    store(tmp_path, "b")
    (log,) = logs(tmp_path)
    append(tmp_path, 2, log, "x")
    append(tmp_path, 3, log, "z", fence=2)
    before = log.read_bytes()
    with pytest.raises(DataError) as refused:
        store(tmp_path, "c")
    assert refused.value.code == "damaged-stream"
    assert log.read_bytes() == before
