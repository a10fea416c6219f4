"""What files tell of their columns, in footers and headers: read on the driver, many side by side.

No job of Spark is run, and no rows are read. The files may be in any store that Hadoop reads.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

Look = Callable[[str], str]
"""The columns of a file, as Spark writes them in JSON."""
_AT_ONCE = 16


def types_in(spark: SparkSession, kind: str, files: Iterable[str]) -> dict[str, StructType | Exception]:
    """The columns of each file, with the types that Spark has for them, or what keeps it from opening."""
    from pyspark.sql.types import StructType

    session: Any = spark
    # Classes are looked up once: each name of a package is a question to the JVM.
    look = _LOOKS[kind](session._jvm, session._jsparkSession.sessionState())
    told: dict[str, StructType] = {}

    def types(file: str) -> StructType | Exception:
        try:
            text = look(file)
        except _failures() as failure:
            return failure
        if text not in told:
            told[text] = StructType.fromJson(json.loads(text))
        return told[text]

    names = list(files)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return dict(zip(names, pool.map(types, names), strict=True))


def _failures() -> tuple[type[Exception], ...]:
    """What the JVM complains of."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    return Py4JJavaError, PySparkException


def _in_parquet(jvm: Any, state: Any) -> Look:
    parquet, path, conf = jvm.org.apache.parquet, jvm.org.apache.hadoop.fs.Path, state.newHadoopConf()
    reader = parquet.hadoop.ParquetFileReader
    no_rows = parquet.format.converter.ParquetMetadataConverter.SKIP_ROW_GROUPS
    spark = jvm.org.apache.spark.sql.execution.datasources.parquet
    types = spark.ParquetToSparkSchemaConverter(state.conf())

    def look(file: str) -> str:
        schema = reader.readFooter(conf, path(file), no_rows).getFileMetaData().getSchema()
        try:
            return str(types.convert(schema).json())
        except _failures():  # a type that Spark does not have, perhaps of a column that nobody reads
            return _struct({field.getName(): alone(schema, field) for field in schema.getFields()})

    def alone(schema: Any, field: Any) -> Any:
        one = jvm.java.util.ArrayList()
        one.add(field)
        try:
            found = types.convert(parquet.schema.MessageType(schema.getName(), one)).json()
        except _failures():
            return None
        return json.loads(found)["fields"][0]["type"]

    return look


def _in_orc(jvm: Any, state: Any) -> Look:
    path, conf = jvm.org.apache.hadoop.fs.Path, state.newHadoopConf()
    orc = jvm.org.apache.spark.sql.execution.datasources.orc.OrcUtils

    def look(file: str) -> str:
        found = orc.readSchema(path(file), conf, False)
        return str(orc.toCatalystSchema(found.get()).json()) if found.isDefined() else _struct({})

    return look


def _in_avro(jvm: Any, state: Any) -> Look:
    path, conf = jvm.org.apache.hadoop.fs.Path, state.newHadoopConf()
    opened, reader = jvm.org.apache.avro.mapred.FsInput, jvm.org.apache.avro.file.DataFileReader
    datum = jvm.org.apache.avro.generic.GenericDatumReader
    types = jvm.org.apache.spark.sql.avro.SchemaConverters

    def look(file: str) -> str:
        content = opened(path(file), conf)
        try:
            schema = reader(content, datum()).getSchema()
        finally:
            content.close()
        try:
            return str(types.toSqlType(schema).dataType().json())
        except _failures():  # as above; a type that holds itself, say
            return _struct({field.name(): alone(field) for field in schema.getFields()})

    def alone(field: Any) -> Any:
        try:
            return json.loads(types.toSqlType(field.schema()).dataType().json())
        except _failures():
            return None

    return look


def _struct(types: Mapping[str, Any]) -> str:
    """Columns in Spark's words, less those without a type."""
    told = [{"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in types.items() if t]
    return json.dumps({"type": "struct", "fields": told})


_LOOKS: dict[str, Callable[[Any, Any], Look]] = {
    "parquet": _in_parquet,
    "orc": _in_orc,
    "avro": _in_avro,
}
