"""Parquet and ORC, by Spark's own readers and writers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from penstock.formats.base import Format
from penstock.formats.fitting import Misfit, misfits
from penstock.formats.footers import types_in
from penstock.formats.frames import columns_of, finished, nothing_to_infer, spark_ddl, under_base, wanted
from penstock.formats.paths import files_of
from penstock.formats.pruning import left
from penstock.formats.unknown import lacking
from penstock.formats.whole_files import bad_file, read_sound, rejects_of_files, sift, unopened
from penstock.options import Options
from penstock.schema import Column, Unknown

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class ColumnarReadOptions(Options):
    merge_schema: bool = Field(
        False, description="Whether discovered columns are those of all files together, not of one of them."
    )


class ParquetWriteOptions(Options):
    compression: Literal["snappy", "zstd", "gzip", "lz4", "none"] = Field(
        "snappy", description="How columns are compressed."
    )


class OrcWriteOptions(Options):
    compression: Literal["zstd", "snappy", "zlib", "lz4", "none"] = Field(
        "zstd", description="How columns are compressed."
    )


class Columnar(Format):
    """A format whose files tell their own columns."""

    _row_index: ClassVar[bool] = False

    @property
    def table_options(self) -> dict[str, str]:
        return {}

    def _discovery(self) -> dict[str, Any]:
        """Spark's options when columns are discovered."""
        return {"mergeSchema": self.options.merge_schema}

    def discover(self, spark: SparkSession, paths: list[str]) -> tuple[Column, ...]:
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import AnalysisException

        reader = spark.read.format(self.name).options(**self._discovery())
        try:
            return columns_of(reader.load(paths).schema)
        except AnalysisException as failure:
            if failure.getCondition() == "UNABLE_TO_INFER_SCHEMA":
                raise nothing_to_infer(paths) from None
            raise
        except Py4JJavaError:
            # The columns are those of the sound files; what becomes of the others is seen when they are read.
            sound, damaged = sift(self.name, paths, lambda files: misfits(spark, self.name, files, (), ()))
            if not damaged:
                raise
            if not sound:
                raise bad_file(*next(iter(damaged.items()))) from None
            return self.discover(spark, sound)

    def read(
        self, spark: SparkSession, paths: list[str], columns: tuple[Column, ...], request: Any
    ) -> DataFrame:
        used = wanted(columns, request)

        def load(files: list[str]) -> DataFrame:
            frame = self._load(spark, files, columns, request)
            return finished(frame, used, request, row_index=self._row_index)

        look = self._look(spark, columns, request)
        if request.on_error != "fail":
            return read_sound(spark, self.name, paths, look, load)
        for file, why in look(left(files_of(paths), request)).items() if request.prune(columns) else ():
            raise why.error(file) if isinstance(why, Misfit) else unopened(self.name, file, why)
        return load(paths)

    def rejects(
        self, spark: SparkSession, paths: list[str], columns: tuple[Column, ...], request: Any
    ) -> DataFrame:
        def load(files: list[str]) -> DataFrame:
            return self._load(spark, files, columns, request)

        look = self._look(spark, columns, request)
        return rejects_of_files(spark, self.name, paths, request.prune(columns), look, load)

    def _look(
        self, spark: SparkSession, columns: tuple[Column, ...], request: Any
    ) -> Callable[[list[str]], dict[str, Misfit | Exception]]:
        """Tells which of some files cannot be read as these columns."""
        return lambda files: misfits(spark, self.name, files, columns, request.prune(columns))

    def _load(
        self, spark: SparkSession, files: list[str], columns: tuple[Column, ...], request: Any
    ) -> DataFrame:
        reader = spark.read.format(self.name).schema(spark_ddl((*columns, *request.partitions)))
        return under_base(reader, request).load(files)

    def unknown_in_files(
        self, spark: SparkSession, paths: list[str], columns: tuple[Column, ...]
    ) -> tuple[Unknown, ...]:
        found: list[Unknown] = []
        for path, types in types_in(spark, self.name, paths).items():
            if not isinstance(types, Exception):
                told = [*columns, *(u.column for u in found)]
                found += lacking(columns_of(types), told, f"file {path}")
        return tuple(found)

    def write(self, frame: DataFrame, path: str, partition_by: tuple[str, ...] = ()) -> None:
        frame.write.mode("append").partitionBy(*partition_by).format(self.name).option(
            "compression", self.options.compression
        ).save(path)


class Parquet(Columnar):
    """Apache Parquet."""

    name = "parquet"
    extensions = ("parquet", "pq")
    ReadOptions = ColumnarReadOptions
    WriteOptions = ParquetWriteOptions
    _row_index = True

    @property
    def suffix(self) -> str:
        return ".parquet"


class Orc(Columnar):
    """Apache ORC."""

    name = "orc"
    extensions = ("orc",)
    ReadOptions = ColumnarReadOptions
    WriteOptions = OrcWriteOptions

    @property
    def suffix(self) -> str:
        return ".orc"
