"""Makes an archive of classes: runs typical work in a JVM that writes down, at its end, what it loaded.

`python -m penstock.engine.training [JAR...]`, started by `penstock.engine.archive`.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import traceback
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.engine import archive
from penstock.engine.cache import cache_folder, locked
from penstock.engine.gateway import Launch, Starting
from penstock.engine.java import find_java
from penstock.engine.machine import jvm_flags
from penstock.engine.session import local_session
from penstock.errors import SetupError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = "id BIGINT, at TIMESTAMP, name STRING, amount DOUBLE, ok BOOLEAN"


def main(jars: list[str]) -> None:
    os.nice(19)
    launch = Launch(find_java(), tuple(map(Path, jars)), jvm_flags("local[2]"))
    folder = cache_folder("archives")
    with locked(folder):
        if archive.find(launch) is not None:
            return
        partial = folder / f"{os.getpid()}.partial"
        try:
            train(launch, partial)
            archive.keep(launch, partial)
        except Exception:
            archive.failure(launch).write_text(traceback.format_exc(), encoding="utf-8")
            raise
        finally:
            partial.unlink(missing_ok=True)


def train(launch: Launch, path: Path) -> None:
    """Runs the work and writes the archive to `path`."""
    starting = Starting(launch, f"-XX:ArchiveClassesAtExit={path}")
    try:
        starting.adopt()
        spark = local_session("local[2]", {}, "penstock-training")
        with tempfile.TemporaryDirectory(prefix="penstock-training-") as folder:
            work(spark, Path(folder))
        load_all(launch.jars)
        spark.stop()
    finally:
        code = starting.end()
    if code != 0:
        raise SetupError("no-archive", f"Java ended with code {code}")


def work(spark: SparkSession, folder: Path) -> None:
    """Touches the classes of what people do most: text in, SQL, Python, columns out."""
    rows = [
        {"id": n, "at": f"2026-01-01T00:00:{n:02}Z", "name": f"n{n % 3}", "amount": n / 2, "ok": n % 2 == 0}
        for n in range(50)
    ]
    (folder / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    text = [",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]
    (folder / "in.csv").write_text("\n".join(text))

    spark.dataSource.register(_rows_source())
    frames = {
        "json": spark.read.schema(COLUMNS).json(str(folder / "in.jsonl")),
        "guessed": spark.read.json(str(folder / "in.jsonl")).selectExpr("*", "_metadata.file_path"),
        "csv": spark.read.schema(COLUMNS).csv(str(folder / "in.csv"), header=True),
        "bytes": spark.read.format("binaryFile").load(str(folder / "in.csv")).drop("content"),
        "lines": spark.read.text(str(folder / "in.jsonl")).mapInArrow(_same, "value STRING"),
        "python": spark.read.format("penstock_training").load(),
    }
    for name, frame in frames.items():
        frame.createOrReplaceTempView("source")
        kept = spark.sql("SELECT * FROM source WHERE 1 + length(cast(struct(*) AS STRING)) > 1")
        kept.write.mode("overwrite").parquet(str(folder / name))
        kept.limit(3).collect()
    columns = spark.read.parquet(str(folder / "json"))
    columns.createOrReplaceTempView("source")
    grouped = spark.sql(
        "SELECT name, count(*) AS n, sum(amount) AS total, max(at) AS latest FROM source"
        " WHERE amount > 3.5 AND name <> 'n1' GROUP BY name HAVING count(*) > 1 ORDER BY total DESC LIMIT 5"
    )
    grouped.persist().count()
    grouped.toArrow()
    grouped.unpersist()
    columns.where("ok").selectExpr("id", "to_date(at) AS day").write.partitionBy("day").json(
        str(folder / "days"), compression="gzip"
    )
    columns.join(frames["csv"], "id").coalesce(1).write.csv(str(folder / "joined"), header=True)
    stream(spark, folder)


def stream(spark: SparkSession, folder: Path) -> None:
    """A stream of files, batch by batch."""

    def deliver(frame: DataFrame, number: int) -> None:
        lines = frame.sparkSession.read.text([row.path for row in frame.select("path").collect()])
        lines.mapInArrow(_same, "value STRING").write.mode("overwrite").parquet(str(folder / "streamed"))
        frame.selectExpr("to_json(struct(*)) AS value").write.mode("overwrite").text(str(folder / "text"))

    files = spark.readStream.format("binaryFile").schema(
        "path STRING, modificationTime TIMESTAMP, length BIGINT, content BINARY"
    )
    writer = files.load(str(folder / "in.*")).select("path").writeStream.foreachBatch(deliver)
    writer = writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)
    writer.start().awaitTermination()


def load_all(jars: Sequence[Path]) -> None:
    """Loads the classes of jars whose systems are not there to be talked to."""
    from pyspark import SparkContext

    jvm: Any = SparkContext._jvm
    loader = jvm.java.lang.ClassLoader.getSystemClassLoader()
    for jar in jars:
        with zipfile.ZipFile(jar) as archived:
            files = [name for name in archived.namelist() if name.endswith(".class")]
        names = [name.removesuffix(".class").replace("/", ".") for name in files]
        for name in names:
            with suppress(Exception):  # some need classes that are not there either
                jvm.java.lang.Class.forName(name, False, loader)


def _same(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
    yield from batches


def _rows_source() -> Any:
    from pyspark.sql.datasource import DataSource, DataSourceReader

    class Rows(DataSourceReader):
        def read(self, partition: Any) -> Iterator[Any]:
            import pyarrow as pa

            yield pa.RecordBatch.from_pydict({"id": [1, 2], "name": ["a", "b"]})

    class Source(DataSource):
        @classmethod
        def name(cls) -> str:
            return "penstock_training"

        def schema(self) -> str:
            return "id BIGINT, name STRING"

        def reader(self, schema: Any) -> DataSourceReader:
            return Rows()

    return Source


if __name__ == "__main__":
    main(sys.argv[1:])
