"""Whatever goes wrong: a clear error, an exit code that tells whose fault it is, nothing half-written."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.orc
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


def parquet_damaged_inside(folder: Path) -> None:
    pq.write_table(pa.table({"id": list(range(10_000))}), folder / "in.parquet")
    content = (folder / "in.parquet").read_bytes()
    (folder / "in.parquet").write_bytes(content[:100] + b"\x55" * 2000 + content[2100:])


TEXTS = pa.table({"id": ["1", "x"], "name": ["a", "b"]})


def parquet_of_texts(folder: Path) -> None:
    pq.write_table(TEXTS, folder / "in.parquet")


def orc_of_texts(folder: Path) -> None:
    pyarrow.orc.write_table(TEXTS, folder / "in.orc")


def avro_of_texts(folder: Path) -> None:
    fields = [{"name": name, "type": ["null", "string"]} for name in TEXTS.column_names]
    with (folder / "in.avro").open("wb") as file:
        fastavro.writer(file, {"type": "record", "name": "r", "fields": fields}, TEXTS.to_pylist())


def avro_damaged_inside() -> bytes:
    """A sound header; then a block that does not end in the header's mark."""
    schema = b'{"type":"record","name":"r","fields":[{"name":"id","type":"long"}]}'
    size = bytes([len(schema) * 2 % 128 | 128, len(schema) * 2 // 128])
    return b"Obj\x01\x02\x16avro.schema" + size + schema + b"\x00" + b"m" * 16 + b"\x02\x02\x08" + b"x" * 16


def cut_gzip(text: str) -> bytes:
    content = gzip.compress(text.encode())
    return content[: len(content) * 2 // 3]


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
        "Parquet damaged inside",
        parquet_damaged_inside,
        f"SELECT * FROM 'in.parquet' {INTO}",
        ("error[bad-file]", "in.parquet is damaged", "statement:1:15"),
    ),
    Mistake(
        "Avro damaged inside",
        written("in.avro", avro_damaged_inside()),
        f"SELECT a.id FROM 'datagen://x?rows=3' r JOIN 'in.avro' a ON r.id = a.id {INTO}",
        ("error[bad-file]", "in.avro is damaged", "statement:1:46"),
    ),
    Mistake(
        "Parquet of another type",
        parquet_of_texts,
        COLUMNS.format("in.parquet") + f"SELECT * FROM s {INTO}",
        ("error[column-types]", "in.parquet has id as STRING, which cannot be read as BIGINT", "statement:"),
    ),
    Mistake(
        "Parquet of a type that Spark does not have",
        lambda folder: pq.write_table(
            pa.table({"id": [1], "name": pa.array([1], pa.time32("ms"))}), folder / "in.parquet"
        ),
        COLUMNS.format("in.parquet") + f"SELECT * FROM s {INTO}",
        ("error[column-types]", "in.parquet has name as INT32, which cannot be read as STRING", "statement:"),
    ),
    Mistake(
        "ORC of another type",
        orc_of_texts,
        COLUMNS.format("in.orc") + f"SELECT * FROM s {INTO}",
        ("error[column-types]", "in.orc has id as STRING, which cannot be read as BIGINT", "statement:"),
    ),
    Mistake(
        "Avro of another type",
        avro_of_texts,
        COLUMNS.format("in.avro") + f"SELECT * FROM s {INTO}",
        ("error[column-types]", "in.avro has id as STRING, which cannot be read as BIGINT", "statement:"),
    ),
    Mistake(
        "malformed ORC",
        written("in.orc", b"ORCxxxxxxx" * 20),
        f"SELECT * FROM 'in.orc' {INTO}",
        ("error[bad-file]", "/in.orc is damaged", "statement:1:15"),
    ),
    Mistake(
        "cut CSV without declared columns",
        written("in.csv.gz", cut_gzip("id,name\n1,a\n2,b\n")),
        f"SELECT * FROM 'in.csv.gz' {INTO}",
        ("error[bad-file]", "/in.csv.gz is damaged", "statement:1:15"),
    ),
    Mistake(
        "cut JSON without declared columns",
        written("in.jsonl.gz", cut_gzip('{"id": 1}\n{"id": 2}\n')),
        f"SELECT * FROM 'in.jsonl.gz' {INTO}",
        ("error[bad-file]", "/in.jsonl.gz is damaged", "statement:1:15"),
    ),
    Mistake(
        "malformed MessagePack",
        written("in.msgpack", b"\xc1\xff"),
        f"SELECT * FROM 'in.msgpack' {INTO}",
        ("error[bad-file]", "/in.msgpack is damaged: not MessagePack from byte 0 on", "statement:1:15"),
    ),
    Mistake(
        "half a JSON document",
        written("in.json", '[{"a":1},{"a":'),
        f"SELECT * FROM 'in.json' WITH (multiline = true) {INTO}",
        ("error[bad-file]", "/in.json is damaged", "statement:1:15"),
    ),
    Mistake(
        "half a JSON document with declared columns",
        written("in.json", '[{"a":1},{"a":'),
        "CREATE SOURCE s (a INT) WITH (connector = 'files', path = 'in.json', multiline = true); "
        f"SELECT * FROM s {INTO}",
        ("error[bad-record]", "/in.json", "statement:1:"),
    ),
    Mistake(
        "a cut JSON document",
        written("in.json.gz", cut_gzip('[{"a":1},{"a":2},{"a":3}]')),
        f"SELECT * FROM 'in.json.gz' WITH (multiline = true) {INTO}",
        ("error[bad-file]", "in.json.gz is damaged", "statement:1:15"),
    ),
    Mistake(
        "a file where the target has a folder",
        GOOD,
        "SELECT 1 AS id INTO 'out/*.csv', 'in.csv/x/*.csv'",
        ("error[file-in-the-way]", "/in.csv is a file", "statement:1:34"),
    ),
    Mistake(
        "a target that cannot be made",
        GOOD,
        "SELECT 1 AS id INTO 'out/*.csv', '/proc/nope/*.csv'",
        ("error[target-not-writable]", "/proc/nope", "statement:1:34", "hint: "),
        code=3,
    ),
    Mistake(
        "a single file that cannot be made",
        GOOD,
        "SELECT 1 AS id INTO '/proc/nope.csv'",
        ("error[target-not-writable]", "/proc", "statement:1:21"),
        code=3,
    ),
    Mistake(
        "two columns of one name",
        GOOD,
        f"SELECT 1 AS a, 2 AS a {INTO}",
        ("error[column-already-exists]", "`a`", "statement:1:1"),
    ),
    Mistake(
        "a query that fails in the middle",
        GOOD,
        f"SELECT if(id = 15000, raise_error('enough'), id) AS id FROM 'datagen://x?rows=20000' {INTO}",
        ("error[user-raised-exception]", "enough"),
        code=1,
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


@pytest.mark.spark
def test_a_damaged_file_among_sound_ones_is_skipped(penstock_spark: Penstock) -> None:
    Path("in").mkdir()
    Path("in/1.csv.gz").write_bytes(cut_gzip("id,name\n1,a\n2,b\n"))
    Path("in/2.csv.gz").write_bytes(gzip.compress(b"id,name\n3,c\n"))
    statement = "SELECT * FROM 'in/*.csv.gz'{} INTO 'out.csv'"
    result = penstock_spark("run", "-e", statement.format(""))
    assert result.code == 2
    assert "/in/1.csv.gz" in result.err
    assert not Path("out.csv").exists()
    assert penstock_spark("run", "-e", statement.format(" WITH (on_error = 'skip')")).code == 0
    assert Path("out.csv").read_text() == "id,name\n3,c\n"


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
