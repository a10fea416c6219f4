"""Folders, files and patterns, on the local disk by Python and by Hadoop."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from py4j.protocol import Py4JJavaError

from penstock.connectors import storage
from penstock.connectors.storage import (
    Hadoop,
    Local,
    Storage,
    absolute,
    braces,
    files_below,
    fixed_root,
    glob,
)
from penstock.errors import SetupError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TREE = [
    "a.csv", "b.csv", "c.json", ".hidden.csv", "_SUCCESS", "x[1].csv",
    "date=2024-01-01/k=a/one.csv", "date=2024-01-02/k=b/two.csv", "deep/er/three.csv", "deep/four.csv",
    ".staging/five.csv", "_odd=1/six.csv",
]  # fmt: skip


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in TREE:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    return tmp_path


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("a.csv", ["a.csv"]),
        ("*.csv", ["a.csv", "b.csv", "x[1].csv"]),
        ("?.csv", ["a.csv", "b.csv"]),
        ("[ac].*", ["a.csv", "c.json"]),
        ("[^a].csv", ["b.csv"]),
        ("x[1].csv", ["x[1].csv"]),
        ("{a,c}.{csv,json}", ["a.csv", "c.json"]),
        (".hid*", [".hidden.csv"]),
        ("date=*/k=*/*.csv", ["date=2024-01-01/k=a/one.csv", "date=2024-01-02/k=b/two.csv"]),
        ("**/four.csv", ["deep/four.csv"]),
        ("deep/**/*.csv", ["deep/er/three.csv", "deep/four.csv"]),
        ("deep/**", ["deep/er/three.csv", "deep/four.csv"]),
        ("**/a.csv", ["a.csv"]),
        ("nothing/*.csv", []),
        ("a.csv/*", []),
    ],
)
def test_patterns(tree: Path, pattern: str, names: list[str]) -> None:
    found = glob(Local(), f"{tree}/{pattern}")
    assert [entry.path for entry in found] == [f"{tree}/{name}" for name in names]


def test_a_pattern_may_match_folders(tree: Path) -> None:
    assert [(e.name, e.is_folder) for e in glob(Local(), f"{tree}/d*")] == [
        ("date=2024-01-01", True), ("date=2024-01-02", True), ("deep", True),
    ]  # fmt: skip


def test_files_below_a_folder(tree: Path) -> None:
    partitioned = sorted(f[len(str(tree)) + 1 :] for f in files_below(Local(), str(tree)))
    assert partitioned == [
        "_odd=1/six.csv", "a.csv", "b.csv", "c.json", "date=2024-01-01/k=a/one.csv",
        "date=2024-01-02/k=b/two.csv", "x[1].csv",
    ]  # fmt: skip
    everything = set(files_below(Local(), str(tree), recursive=True))
    assert {f"{tree}/deep/er/three.csv", f"{tree}/deep/four.csv"} <= everything
    assert f"{tree}/.staging/five.csv" not in everything


def test_nested_braces() -> None:
    assert list(braces("x{a,b{1,2}}.{c}")) == ["xa.{c}", "xb1.{c}", "xa.{c}", "xb2.{c}"]


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("file:///x/y", "/x/y"),
        ("FILE:/x", "/x"),
        ("/x/../y/", "/y"),
        ("s3a://bucket/a/", "s3a://bucket/a"),
        ("hdfs://h:1/a*", "hdfs://h:1/a*"),
    ],
)
def test_absolute_paths(text: str, path: str) -> None:
    assert absolute(text) == path


def test_relative_paths_are_from_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/me")
    assert absolute("a/b.csv") == absolute("file://a/b.csv") == f"{tmp_path}/a/b.csv"
    assert absolute("~/b.csv") == "/home/me/b.csv"


@pytest.mark.parametrize(
    ("pattern", "root"),
    [
        ("/a/b/*.csv", "/a/b"),
        ("/a/*/b", "/a"),
        ("/a/b.csv", "/a"),
        ("/*", "/"),
        ("s3a://b/x/{a,b}", "s3a://b/x"),
    ],
)
def test_fixed_root(pattern: str, root: str) -> None:
    assert fixed_root(pattern) == root


def exercise(store: Storage, root: str) -> None:
    """The same on every storage."""
    assert store.find(root) is None
    assert store.children(root) == []
    store.make_folder(f"{root}/in/deep")
    assert store.find(f"{root}/in") == storage.Entry(f"{root}/in", True)
    local = Path(root.removeprefix("file://"))
    (local / "in" / "a").write_text("new")
    (local / "out").mkdir()
    (local / "out" / "a").write_text("older")
    store.move(f"{root}/in/a", f"{root}/out/a")
    store.move(f"{root}/out/a", f"{root}/far/away/b")
    assert store.size(f"{root}/far/away/b") == 3
    assert (local / "far/away/b").read_text() == "new"
    assert [(e.path, e.is_folder) for e in store.children(root)] == [
        (f"{root}/far", True), (f"{root}/in", True), (f"{root}/out", True),
    ]  # fmt: skip
    assert [e.path for e in glob(store, f"{root}/f*/**/b")] == [f"{root}/far/away/b"]
    store.delete(f"{root}/far")
    store.delete(f"{root}/not there")
    (local / "in" / "b").write_text("kept")
    with pytest.raises((SetupError, OSError, Py4JJavaError)):
        store.move(f"{root}/in/missing", f"{root}/in/b")
    assert [e.name for e in store.children(f"{root}/in")] == ["b", "deep"]
    assert (local / "in" / "b").read_text() == "kept"
    assert not (local / "far").exists()
    assert not store.delete_empty(f"{root}/in")
    assert store.delete_empty(f"{root}/in/deep")
    assert store.delete_empty(f"{root}/in/deep")
    assert store.find(f"{root}/in/b/below a file") is None
    with pytest.raises(OSError, match="b"):
        store.make_folder(f"{root}/in/b/below a file")
    assert [e.name for e in store.children(f"{root}/in")] == ["b"]


def test_local_storage(tmp_path: Path) -> None:
    exercise(Local(), f"{tmp_path}/root")


@pytest.mark.spark
def test_hadoop_storage(spark: SparkSession, tmp_path: Path) -> None:
    root = f"file://{tmp_path}/root"
    exercise(Hadoop(spark, root), root)


@pytest.mark.spark
def test_an_unknown_file_system_is_told(spark: SparkSession) -> None:
    with pytest.raises(SetupError, match="nosuch") as caught:
        storage.of(spark, "nosuch://bucket/x")
    assert caught.value.code == "no-filesystem"
