"""Sinks' paths: folders, single files, times."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from penstock.connectors.storage import Local
from penstock.connectors.templates import Target, as_glob, compression_of, uncompressed
from penstock.schema import Column

NOON = datetime(2024, 3, 9, 12, 5)


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/out/", Target("/out", "", "*", False)),
        ("/out", Target("/out", "", "*", False)),
        ("/out/*.json", Target("/out", "", "*.json", False)),
        ("/out/day-*.json.gz", Target("/out", "", "day-*.json.gz", False)),
        ("/out/rows.csv", Target("/out", "rows.csv", "rows.csv", True)),
        ("/o/d={YYYY-MM-DD}/*.parquet", Target("/o", "d={YYYY-MM-DD}", "*.parquet", False)),
        ("/o/{YYYY}/{MM}/x/", Target("/o", "{YYYY}/{MM}/x", "*", False)),
        ("/o/x/{YYYY}.csv", Target("/o/x", "{YYYY}.csv", "{YYYY}.csv", True)),
        ("/o/v=1.5", Target("/o/v=1.5", "", "*", False)),
        ("s3a://b/x/*.csv", Target("s3a://b/x", "", "*.csv", False)),
    ],
)
def test_paths_are_taken_apart(path: str, target: Target) -> None:
    assert Target.parse(path) == target


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/out/{yyyy}/", "'{yyyy}' is no template; there are {YYYY}"),
        ("/out/{a,b}.csv", "no template"),
        ("/*/x.csv", "only the last name"),
        ("/out/**", "only the last name"),
        ("/out/?.csv", "only the last name"),
        ("", "expected a folder"),
        ("/", "expected a folder"),
    ],
)
def test_what_no_sink_can_be(path: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Target.parse(path)


def test_times_fill_the_templates() -> None:
    target = Target.parse("/o/{YYYY}/{MM}/{DD}/h={HH}/d={YYYY-MM-DD}/")
    assert target.at(NOON) == "2024/03/09/h=12/d=2024-03-09"
    assert target.partitions() == (Column("h", "STRING"), Column("d", "DATE"))
    assert target.partition_keys() == {"h", "d"}
    assert target.has_plain_times()
    assert not Target.parse("/o/x/d={YYYY-MM-DD}/y/").has_plain_times()
    assert target.without_time() == "unknown/unknown/unknown/h={0}/d={0}".format("__HIVE_DEFAULT_PARTITION__")
    assert target.templated
    assert not Target.parse("/o/").templated


def test_names_carry_the_ending_that_was_written_and_the_compression_that_is() -> None:
    assert Target.parse("/o/").file_name("L", ".csv.gz") == "L.csv.gz"
    assert Target.parse("/o/*.jsonl").file_name("L", ".json.gz") == "L.jsonl.gz"
    assert Target.parse("/o/x-*.parquet").file_name("L", ".snappy.parquet") == "x-L.parquet"


def test_data_files_are_only_those_of_the_path(tmp_path: Path) -> None:
    for name in (
        "2024/03/a.json", "2024/03/k=v/b.json.gz", "2024/03/other/c.json", "2024/03/d.csv", "2024/x/e.json",
        "f.json", "2024/03/_g.json", "unknown/unknown/h.json",
    ):  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    target = Target.parse(f"{tmp_path}/{{YYYY}}/{{MM}}/*.json")
    found = sorted(p[len(str(tmp_path)) + 1 :] for p in target.data_files(Local()))
    assert found == ["2024/03/a.json", "2024/03/k=v/b.json.gz", "unknown/unknown/h.json"]
    assert list(target.data_files(Local(), "2023/01")) == []


def test_a_single_file_is_the_only_data_file(tmp_path: Path) -> None:
    (tmp_path / "out.csv").touch()
    (tmp_path / "other.csv").touch()
    assert list(Target.parse(f"{tmp_path}/out.csv").data_files(Local())) == [f"{tmp_path}/out.csv"]


def test_endings() -> None:
    assert uncompressed("a.csv.gz") == "a.csv"
    assert uncompressed("a.csv") == "a.csv"
    assert compression_of("a.csv.GZ") == "gzip"
    assert compression_of("a.csv") is None
    assert as_glob("d={YYYY-MM-DD}/{HH}/{a,b}.csv") == "d=*/*/{a,b}.csv"
