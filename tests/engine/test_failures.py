"""What Spark raises, as our errors: told by its text alone."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException

from penstock.engine.failures import rejected, translate
from penstock.errors import DataError, Place, RunError, StatementError

AT = Place("statement", 1, 15)


@pytest.mark.parametrize(
    "text",
    [
        "java.lang.IndexOutOfBoundsException\n\tat org.apache.orc.impl.ReaderImpl.extractFileTail(x)",
        "java.io.EOFException: Unexpected end of input stream\n\tat x",
        "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///a/b.orc. SQLSTATE: KD001",
    ],
)
def test_a_file_that_cannot_be_read_is_of_the_input(text: str) -> None:
    error = translate(Exception(text), name="/a/b.orc")
    assert isinstance(error, DataError)
    assert (error.code, error.message) == ("bad-file", "/a/b.orc is damaged, or not in this format")


def test_what_analysis_refuses_is_of_the_statement() -> None:
    error = translate(AnalysisException("[COLUMN_ALREADY_EXISTS] The column `a` already exists."))
    assert isinstance(error, StatementError)
    assert error.exit_code == 2
    assert error.message == "The column `a` already exists."


def test_a_call_into_the_jvm_is_not_told_of() -> None:
    text = (
        "An error occurred while calling o28.csv.\n: org.apache.spark.SparkException: "
        "[SCALAR_SUBQUERY_TOO_MANY_ROWS] More than one row. SQLSTATE: 21000\n\tat org.apache.spark.X"
    )
    error = translate(Exception(text))
    assert isinstance(error, RunError)
    assert (error.code, error.message) == ("scalar-subquery-too-many-rows", "More than one row.")


def test_a_bad_record_stands_in_its_file_or_else_at_its_source() -> None:
    record = {"payload": "x", "error": "not JSON", "file": "/a.json", "line": 3}
    assert str(rejected(record, AT).at) == "/a.json:3:1"
    assert rejected({**record, "line": None}, AT).at == AT
