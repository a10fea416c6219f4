"""`explain --physical`: only what a statement uses is read, and its conditions reach the files."""

from __future__ import annotations

import json
import re

import pytest

from tests.cli.command import Penstock

pytestmark = pytest.mark.spark

COLUMNS = "id, concat('x', id) AS s, id * 1.5D AS spare"


def made(penstock: Penstock, name: str, *, parted: bool = False) -> None:
    """Files of a format in `in/`, below `p=0` and `p=1` when `parted`."""
    more, options = (", id % 2 AS p", " WITH (partition_by = 'p')") if parted else ("", "")
    result = penstock("run", "-e", f"SELECT {COLUMNS}{more} FROM range(4) INTO 'in/*.{name}'{options}")
    assert result.code == 0, result.err


def plans(penstock: Penstock, statement: str) -> tuple[str, str]:
    """Our plan and Spark's."""
    result = penstock("explain", "--physical", "-e", statement)
    assert result.code == 0, result.err
    ours, spark = result.out.split("== Physical Plan ==")
    return ours, spark


def said(plan: str, label: str) -> str:
    """What a plan says of its scan; column numbers are left out."""
    (line,) = (line.strip() for line in plan.splitlines() if line.strip().startswith(f"{label}: "))
    return re.sub(r"#\d+L?", "", line.removeprefix(f"{label}: "))


@pytest.mark.parametrize("name", ["parquet", "orc", "avro"])
def test_used_columns_and_conditions_reach_files(penstock_spark: Penstock, name: str) -> None:
    made(penstock_spark, name)
    ours, spark = plans(penstock_spark, "SELECT s FROM 'in/' WHERE id > 2")
    assert f"read in/ (files {name})" in ours
    assert said(ours, "filters") == "id > 2"
    assert said(spark, "ReadSchema") == "struct<id:bigint,s:string>"
    assert said(spark, "PushedFilters") == "[IsNotNull(id), GreaterThan(id,2)]"


@pytest.mark.parametrize("name", ["json", "csv"])
def test_lines_name_their_files_conditions_and_columns(penstock_spark: Penstock, name: str) -> None:
    made(penstock_spark, name)
    ours, spark = plans(penstock_spark, "SELECT s FROM 'in/' WHERE id > 2")
    assert f"read in/ (files {name})" in ours
    assert said(ours, "filters") == "id > 2"
    (decoded,) = re.findall(r"decode_lines\(.*?\)#\d+, (\[.*?\])", spark)
    assert re.sub(r"#\d+L?", "", decoded) == "[id, s]"


@pytest.mark.parametrize("name", ["parquet", "orc", "avro", "json", "csv"])
def test_conditions_on_folders_leave_files_out(penstock_spark: Penstock, name: str) -> None:
    made(penstock_spark, name, parted=True)
    ours, spark = plans(penstock_spark, "SELECT s FROM 'in/' WHERE id > 2 AND p = 1")
    assert said(ours, "filters") == "id > 2, p = 1"
    assert said(spark, "PartitionFilters") == "[isnotnull(p), (p = 1)]"
    assert said(spark, "ReadSchema") == "struct<id:bigint,s:string>"


def test_both_plans_in_json(penstock_spark: Penstock) -> None:
    made(penstock_spark, "json")
    statement = "SELECT s FROM 'in/' WHERE id > 2 INTO 'out/*.csv'"
    (told,) = penstock_spark("explain", "--physical", "--json", "-e", statement).json
    (read,) = told["query"]["inputs"]
    assert (read["read"], read["format"], read["filters"]) == ("in/", "json", ["id > 2"])
    assert [sink["write"] for sink in told["sinks"]] == ["out/*.csv"]
    assert told["physical"].startswith("== Physical Plan ==")
    assert "decode_lines" in told["physical"]


@pytest.mark.parametrize(
    "where",
    ["out/*.parquet", "delta://out", "iceberg://catalog.db.out", "hudi://out"],
    ids=["files", "delta", "iceberg", "hudi"],
)
def test_explain_tells_what_is_skipped(penstock_spark: Penstock, where: str) -> None:
    """Partitions that a condition leaves out are not read, nor are columns that nobody asks for."""
    into = f"INTO '{where}' WITH (partition_by = 'p')"
    made = penstock_spark("run", "-e", f"SELECT {COLUMNS}, id % 4 AS p FROM range(400) {into}")
    assert made.code == 0, made.err
    read = where.removesuffix("*.parquet")
    answer = penstock_spark("explain", "--physical", "--json", "-e", f"SELECT s FROM '{read}' WHERE p = 1")
    assert answer.code == 0, answer.err
    (scan,) = json.loads(answer.out)["scans"]
    assert scan["files_skipped"] == 3 * scan["files"] > 0
    assert 2 * scan["bytes"] < scan["bytes_skipped"]
    assert "s" in scan["columns"]
    assert "spare" not in scan["columns"]
    assert "p" in scan["filters"]
    shown = penstock_spark("explain", "--physical", "-e", f"SELECT s FROM '{read}' WHERE p = 1")
    assert f"{scan['files']} of {4 * scan['files']} files" in shown.out


@pytest.mark.parametrize("where", ["delta://out", "iceberg://catalog.db.out"], ids=["delta", "iceberg"])
def test_files_are_skipped_by_what_they_hold(penstock_spark: Penstock, where: str) -> None:
    """Without partitions, a condition leaves out the files none of whose values meet it."""
    for n in range(3):
        rows = f"SELECT id + {n * 100} AS id, 'x' AS s FROM range(10)"
        made = penstock_spark("run", "-e", f"{rows} INTO '{where}' WITH (mode = 'append')")
        assert made.code == 0, made.err
    query = f"SELECT s FROM '{where}' WHERE id > 150"
    (scan,) = json.loads(penstock_spark("explain", "--physical", "--json", "-e", query).out)["scans"]
    assert scan["files"] > 0
    assert scan["files_skipped"] == 2 * scan["files"]
    assert "id" in scan["filters"]
    assert "150" in scan["filters"]
    _, spark = plans(penstock_spark, query)
    assert "150" in spark


def test_explain_of_an_earlier_state(penstock_spark: Penstock) -> None:
    """It is told what that one has, not the newest."""
    into = "INTO 'iceberg://catalog.db.t' WITH (mode = 'append', partition_by = 'p')"
    for rows in (40, 8):
        made = penstock_spark("run", "-e", f"SELECT {COLUMNS}, id % 4 AS p FROM range({rows}) {into}")
        assert made.code == 0, made.err
    told = json.loads(penstock_spark("inspect", "iceberg://catalog.db.t", "--json").out.splitlines()[0])
    first = told["facts"]["newest commits"][-1].partition(":")[0]
    query = f"SELECT s FROM 'iceberg://catalog.db.t' WITH (snapshot = {first}) WHERE p = 1"
    (scan,) = json.loads(penstock_spark("explain", "--physical", "--json", "-e", query).out)["scans"]
    assert scan["files_skipped"] == 3 * scan["files"] > 0
