from __future__ import annotations

import bz2
import gzip
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.formats.lines import splits
from penstock.formats.lines.splits import Split, chunks, count_lines, plan_splits


def _plan(path: Path, cores: int = 2, **more: bool) -> list[Split]:
    return plan_splits([path], cores, **more)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splits, "_SMALLEST_SPLIT", 1)
    monkeypatch.setattr(splits, "CHUNK_SIZE", 7)


@settings(deadline=None)
@given(
    st.lists(st.binary(max_size=12).map(lambda b: b.replace(b"\n", b"")), max_size=20),
    st.booleans(),
    st.integers(1, 9),
)
def test_splits_hold_each_line_once(
    tmp_path_factory: pytest.TempPathFactory, texts: list[bytes], ended: bool, cores: int
) -> None:
    path = tmp_path_factory.mktemp("lines") / "x"
    data = b"\n".join(texts) + (b"\n" if ended else b"")
    path.write_bytes(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(splits, "_SMALLEST_SPLIT", 1)
        patch.setattr(splits, "CHUNK_SIZE", 7)
        found = [chunk for split in _plan(path, cores) for chunk in chunks(split)]
        assert b"".join(chunk.data for chunk in found) == data.removeprefix(b"\xef\xbb\xbf")
        before = 0
        for chunk in found:
            assert chunk.lines_before() == before
            before += count_lines(chunk.data)
    assert all(chunk.data.endswith(b"\n") for chunk in found[:-1])


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("ending", "compress"),
    [
        (".gz", gzip.compress),
        (".bz2", bz2.compress),
        (".zst", lambda data: pa.compress(data, "zstd", asbytes=True)),
    ],
)
def test_compressed_files_are_read_whole(tmp_path: Path, ending: str, compress: object) -> None:
    path = tmp_path / f"x.jsonl{ending}"
    path.write_bytes(compress(b"one\ntwo\n\nthree"))  # type: ignore[operator]
    (split,) = _plan(path, 4)
    found = list(chunks(split))
    assert b"".join(chunk.data for chunk in found) == b"one\ntwo\n\nthree"
    assert [chunk.lines_before() for chunk in found] == [0, 2, 3][: len(found)]


@pytest.mark.usefixtures("small")
def test_chunks_end_where_no_quote_is_open(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(b'1,"a\nb\nc\nd"\n2,x\n3,"y\n"\n')
    (split,) = _plan(path, whole=True)
    assert [chunk.data for chunk in chunks(split, quote=b'"')] == [b'1,"a\nb\nc\nd"\n', b'2,x\n3,"y\n"\n']


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("encoding", ["iso-8859-1", "utf-16", "cp1252"])
def test_other_encodings_become_utf_8(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes("é,ü\nà,ß\n".encode(encoding))
    (split,) = _plan(path, whole=True)
    assert b"".join(chunk.data for chunk in chunks(split, encoding=encoding)) == "é,ü\nà,ß\n".encode()


def test_line_ends_of_all_kinds_are_counted() -> None:
    assert count_lines(b"a\nb\r\nc\rd") == 3
