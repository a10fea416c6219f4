"""`penstock dlq`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cli.command import Penstock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STATEMENT = (
    "SELECT id, CAST(n AS {t}) AS n FROM 'in.jsonl' WITH (on_error = 'dead_letter')"
    " INTO 'out/*.parquet' WITH (mode = 'append')"
)


def test_without_letters(penstock: Penstock) -> None:
    result = penstock("dlq", "ls")
    assert (result.code, result.out, result.err) == (0, "", "there are no dead letters\n")
    assert not Path(".penstock").exists()
    result = penstock("dlq", "show", "p")
    assert result.code == 2
    assert "there is no pipeline 'p'" in result.err


def test_a_stage_that_is_none(penstock: Penstock) -> None:
    result = penstock("dlq", "replay", "p", "--stage", "raed", "--json")
    assert result.code == 2
    assert result.json[-1]["error"]["code"] == "usage"


@pytest.mark.spark
def test_letters_are_listed_shown_and_replayed(penstock_spark: Penstock) -> None:
    Path("in.jsonl").write_text('{"id": 1, "n": "1"}\n{"id": 2, "n": "2.5"}\n{"id": 3, "n": "x"}\n')
    Path("p.sql").write_text(STATEMENT.format(t="INT"))
    assert penstock_spark("run", "p.sql").code == 0

    listed = penstock_spark("dlq", "ls")
    head, _, row = filter(str.strip, listed.out.splitlines())
    assert head.split() == ["pipeline", "stage", "source", "letters", "oldest", "newest", "where"]
    assert row.split()[:4] == ["p", "query", "in.jsonl", "2"]
    (group,) = penstock_spark("dlq", "ls", "p", "--json").json
    assert (group["letters"], group["place"]) == (2, str(Path(row.split()[-1])))

    shown = penstock_spark("dlq", "show", "p", "--limit", "1")
    assert "CAST(n AS INT) fails on 2.5" in shown.out
    assert "row 2" in shown.out
    assert "fails on x" not in shown.out
    letters = penstock_spark("dlq", "show", "p", "--json").json
    assert [json.loads(letter["payload"])["id"] for letter in letters] == [2, 3]

    dry = penstock_spark("dlq", "replay", "p", "--dry-run")
    assert dry.err == "p: 2 letters would go through again\n"
    done = penstock_spark("dlq", "replay", "p", "-e", STATEMENT.format(t="DOUBLE"))
    assert (done.code, done.err) == (0, "p: 2 letters replayed, 1 row delivered, 1 failed again\n")
    again = penstock_spark("dlq", "replay", "p", "p.sql", "--json")
    assert again.json == [{"replayed": {"letters": 1, "rows": 0, "again": 1, "left": 0}}]


@pytest.mark.spark
def test_looking_starts_no_jvm(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Invariant 11"""
    from penstock.api import Session

    monkeypatch.chdir(tmp_path)
    Path("in.jsonl").write_text('{"id": 1, "n": "x"}\n')
    with Session(spark=spark) as session:
        session.run(STATEMENT.format(t="INT"), name="p")
    code = (
        "import sys; from penstock.cli import main; codes = [main(['dlq', 'ls']), main(['dlq', 'show', 'p']),"
        " main(['dlq', 'replay', 'p', '--dry-run'])]; print(codes, 'pyspark' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "[0, 0, 0] False", done.stderr
