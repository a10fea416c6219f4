"""Whatever is wrong with the input: a clear error, exit code 2 or 3, and nothing half-written."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.connectors import registry
from penstock.connectors.base import Capabilities, Connector, SourceOptions
from tests.cli.command import Penstock

INTO = "INTO 'out/*.parquet'"
COLUMNS = "CREATE SOURCE s (id BIGINT, name STRING) WITH (connector = 'files', path = '{}'); "


def broken_parquet(folder: Path) -> None:
    pq.write_table(pa.table({"id": list(range(1000))}), folder / "in.parquet")
    content = (folder / "in.parquet").read_bytes()
    (folder / "in.parquet").write_bytes(content[: len(content) // 2])


def written(name: str, text: str | bytes) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        (folder / name).write_bytes(text.encode() if isinstance(text, str) else text)

    return write


def yaml(**files: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        for name, text in files.items():
            (folder / f"{name}.yaml").write_text(text)

    return write


@dataclass(frozen=True)
class Mistake:
    name: str
    prepare: Callable[[Path], object]
    statement: str
    says: tuple[str, ...]
    code: int = 2


GOOD = written("in.csv", "id,name\n1,a\n")
INSERT = "INSERT INTO t SELECT id FROM s WITH (source_config = 'source.yaml', sink_config = 'sink.yaml')"
MISTAKES = [
    Mistake(
        "malformed JSON",
        written("in.jsonl", '{"id": 1, "name": "a"}\n{"id": 2,\n'),
        COLUMNS.format("in.jsonl") + f"SELECT * FROM s {INTO}",
        ("error[bad-record]", "in.jsonl:2"),
    ),
    Mistake(
        "malformed CSV",
        written("in.csv", "id,name\n1,a\ntwo,b\n"),
        COLUMNS.format("in.csv") + f"SELECT * FROM s {INTO}",
        ("error[bad-record]", "in.csv:3"),
    ),
    Mistake(
        "a CSV line that is too long",
        written("in.csv", "id,name\n1,a\n2,b,c\n"),
        COLUMNS.format("in.csv") + f"SELECT id FROM s {INTO}",
        ("error[bad-record]", "in.csv:3"),
    ),
    Mistake(
        "malformed Parquet",
        broken_parquet,
        f"SELECT * FROM 'in.parquet' {INTO}",
        ("error[bad-file]", "in.parquet"),
    ),
    Mistake(
        "malformed Avro",
        written("in.avro", b"Obj\x01" + b"nothing of an Avro file" * 10),
        f"SELECT * FROM 'in.avro' {INTO}",
        ("error[bad-file]", "in.avro"),
    ),
    Mistake(
        "unknown option",
        GOOD,
        f"SELECT * FROM 'in.csv' WITH (delimeter = ';') {INTO}",
        ("error[unknown-option]", "did you mean 'delimiter'?", "^^^^^^^^^"),
    ),
    Mistake(
        "unknown scheme",
        GOOD,
        f"SELECT * FROM 'kafca://h/t' {INTO}",
        ("error[no-connector]", "kafca"),
    ),
    Mistake(
        "no connector claims the properties",
        GOOD,
        "CREATE SOURCE s (id INT) WITH (pfad = 'in.csv', topik = 't')",
        ("error[no-connector]", "files", "http", "datagen", "path"),
    ),
    Mistake("missing file", GOOD, f"SELECT * FROM 'inn.csv' {INTO}", ("error[missing-file]", "in.csv")),
    Mistake(
        "target not empty",
        written("kept.csv", "id\n1\n"),
        "SELECT 1 AS id INTO 'kept.csv'",
        ("error[target-not-empty]", "mode = 'append'"),
    ),
    Mistake(
        "YAML cycle",
        yaml(source="extends: base.yaml\n", base="extends: source.yaml\n", sink=""),
        INSERT,
        ("source.yaml", "base.yaml", "->"),
    ),
    Mistake(
        "missing base file",
        yaml(source="extends: none.yaml\n", sink=""),
        INSERT,
        ("none.yaml", "source.yaml:1:10"),
    ),
    Mistake(
        "bad merged value",
        yaml(
            base="datasource:\n  type: files\n  path: in.csv\n  header: perhaps\n",
            source="extends: base.yaml\n",
            sink="datasink:\n  type: files\n  path: out/*.parquet\n",
        ),
        INSERT,
        ("base.yaml:4", "header"),
    ),
    Mistake(
        "a secret that is not set",
        GOOD,
        f"SELECT * FROM '${{env:PENSTOCK_NOT_SET}}/in.csv' {INTO}",
        ("error[secret-not-set]", "PENSTOCK_NOT_SET"),
        code=3,
    ),
]


@pytest.mark.spark
@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda m: m.name.replace(" ", "-"))
def test_a_mistake_is_told_and_nothing_is_written(mistake: Mistake, penstock_spark: Penstock) -> None:
    mistake.prepare(Path())
    before = {file: file.read_bytes() for file in Path().iterdir()}
    result = penstock_spark("run", "-e", mistake.statement)
    assert result.code == mistake.code, result.err
    assert all(text in result.err for text in mistake.says), result.err
    assert "Traceback" not in result.err
    left = {file: file.read_bytes() for file in Path().iterdir() if file.is_file()}
    assert left == before
    assert not Path("out").exists()


class Twin(Connector):
    """Claims what files claim."""

    name = "twin"
    schemes = ("file",)
    capabilities = Capabilities(bounded=True)
    Source = SourceOptions


def test_two_connectors_for_one_source_are_both_named(
    penstock: Penstock, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {**registry.all_connectors(), "twin": Twin()}
    monkeypatch.setattr(registry, "all_connectors", lambda: known)
    result = penstock("check", "-e", "SELECT * FROM 'in.csv'")
    assert result.code == 2
    assert "error[two-connectors]" in result.err
    assert "files" in result.err
    assert "twin" in result.err


def test_without_java_it_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("id\n1\n")
    environment = {k: v for k, v in os.environ.items() if k != "JAVA_HOME"} | {"PATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "penstock", "run", "-e", f"SELECT * FROM 'in.csv' {INTO}"],
        cwd=tmp_path, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 3
    assert "error[no-java]" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.spark
def test_a_full_disk_leaves_nothing_half_written(tmp_path: Path) -> None:
    """On a file system of one megabyte, in a mount namespace of its own."""
    assert shutil.which("unshare"), "util-linux is needed for a small file system"
    statement = "SELECT id, uuid() AS u FROM 'datagen://x?rows=200000' INTO 'small/out/*.parquet'"
    (tmp_path / "small").mkdir()
    script = (
        "mount -t tmpfs -o size=1m small small && "
        f'"$PYTHON" -m penstock run -e "{statement}"; code=$?; ls -A small; exit $code'
    )
    done = subprocess.run(
        ["unshare", "--map-root-user", "--mount", "sh", "-c", script],
        cwd=tmp_path, env={**os.environ, "PYTHON": sys.executable}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 3, done.stderr
    assert "error[disk-full]" in done.stderr
    assert done.stdout == ""
