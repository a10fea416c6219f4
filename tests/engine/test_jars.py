from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from penstock.engine import jars
from penstock.engine.jars import fetch, jar_path
from penstock.errors import SetupError

AVRO = "org.apache.spark:spark-avro_2.13:4.1.1"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path))
    return tmp_path / "jars"


def test_a_jar_that_is_there_needs_no_jvm(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jars, "_jvm", None)
    jar_path(AVRO).write_bytes(b"jar")
    assert fetch([AVRO]) == [cache / "org.apache.spark_spark-avro_2.13-4.1.1.jar"]
    assert fetch([]) == []


@pytest.mark.parametrize("coordinate", ["spark-avro", "a:b", "a:b:c:d:e", "a:b:c:", "../a:b:c/d", ""])
def test_a_bad_coordinate_is_refused(cache: Path, coordinate: str) -> None:
    with pytest.raises(SetupError, match="not a jar's coordinate"):
        fetch([coordinate])


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_fetches_a_jar_alone(cache: Path) -> None:
    (path,) = fetch([AVRO])
    assert [file.name for file in cache.iterdir()] == [path.name]
    assert "org/apache/spark/sql/avro/AvroDataToCatalyst.class" in zipfile.ZipFile(path).namelist()


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_fetches_a_jar_by_its_classifier(cache: Path) -> None:
    (path,) = fetch(["org.apache.spark:spark-avro_2.13:4.1.1:sources"])
    assert path.name == "org.apache.spark_spark-avro_2.13-4.1.1-sources.jar"
    assert any(name.endswith("AvroDataToCatalyst.scala") for name in zipfile.ZipFile(path).namelist())


@pytest.mark.spark
def test_several_processes_fetch_at_once(cache: Path) -> None:
    """Ivy's cache is not made for that; each gets whole jars all the same."""
    program = "import sys; from penstock.engine.jars import fetch; fetch(sys.argv[1:])"
    wanted = [AVRO, f"{AVRO}:sources", "org.apache.hadoop:hadoop-aws:3.4.2"]
    command = [sys.executable, "-c", program, *wanted]
    ended = [process.wait() for process in [subprocess.Popen(command) for _ in range(3)]]
    assert ended == [0, 0, 0]
    assert [zipfile.ZipFile(path).testzip() for path in fetch(wanted)] == [None, None, None]


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_a_jar_that_is_nowhere_is_named(cache: Path) -> None:
    with pytest.raises(SetupError, match=r"spark-avro_2\.13:0\.0\.0") as caught:
        fetch(["org.apache.spark:spark-avro_2.13:0.0.0"])
    assert caught.value.code == "no-jar"
    assert list(cache.iterdir()) == []
