from __future__ import annotations

from pathlib import Path

import pytest

from penstock.api import Done, Ran, Table, Text
from penstock.cli.run import show, summary
from tests.cli.command import Penstock

PEOPLE = '{"name": "Ada", "age": 36}\n{"name": "Bo", "age": 7}\n'
DIRTY = PEOPLE + '{"name": "Chen", "age":\n'


def ran(**changes: object) -> Ran:
    values = {"name": "daily", "id": "abc", "rows": 1200, "rejected": 0, "sinks": ("out/*.csv",)}
    return Ran(**{**values, "dead_letters": (), "seconds": 1.26, **changes})  # type: ignore[arg-type]


def test_summary() -> None:
    assert summary(ran()) == "daily: 1,200 rows into out/*.csv in 1.3 s"
    assert summary(ran(rows=1, rejected=1)) == "daily: 1 row into out/*.csv in 1.3 s; 1 bad record left out"
    kept = summary(ran(rejected=2, dead_letters=("letters",)))
    assert kept.endswith("; 2 bad records kept in letters")


def test_answers_go_to_stdout_and_the_rest_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    for outcome in (ran(), Done("created source s"), Text("a plan")):
        show(outcome, as_json=False, quiet=False)
    out, err = capsys.readouterr()
    assert out == "a plan\n"
    assert err.splitlines() == [summary(ran()), "created source s"]
    show(Table("sources", ("name", "version"), (("s", 1),)), as_json=False, quiet=False)
    assert capsys.readouterr().out.split()[:2] == ["name", "version"]


def test_quiet_keeps_only_answers(capsys: pytest.CaptureFixture[str]) -> None:
    for outcome in (ran(), Done("created source s"), Text("a plan")):
        show(outcome, as_json=False, quiet=True)
    assert capsys.readouterr() == ("a plan\n", "")


def test_unknown_name_is_2_before_anything_runs(penstock: Penstock, tmp_path: Path) -> None:
    result = penstock(
        "run", "-e", "CREATE SOURCE s WITH (connector = 'files', path = 'a.csv'); SELECT * FROM nope"
    )
    assert result.code == 2
    assert "error[unknown-name]" in result.err
    assert list(tmp_path.iterdir()) == []


def test_statements_without_rows_need_no_spark(penstock: Penstock) -> None:
    result = penstock(
        "run", "--json", "-e", "CREATE SOURCE s WITH (connector = 'files', path = 'a.csv'); SHOW SOURCES"
    )
    assert result.code == 0
    done, table = result.json
    assert done == {"done": "created source s"}
    assert [row["name"] for row in table["rows"]] == ["s"]


@pytest.mark.spark
def test_rows_to_files_with_a_summary(penstock_spark: Penstock, tmp_path: Path) -> None:
    (tmp_path / "people.jsonl").write_text(PEOPLE)
    statement = "SELECT name FROM 'people.jsonl' WHERE age > 18 INTO 'out/*.csv'"
    (tmp_path / "adults.sql").write_text(statement)
    result = penstock_spark("run", "adults.sql")
    assert (result.code, result.out) == (0, "")
    assert result.err.startswith("adults: 1 row into out/*.csv in ")
    assert len(list(tmp_path.glob("out/*.csv"))) == 1
    again = penstock_spark("run", "adults.sql", "--json")
    assert again.code == 2
    assert again.json[-1]["error"]["code"] == "target-not-empty"


@pytest.mark.spark
def test_rows_to_the_terminal(penstock_spark: Penstock, tmp_path: Path) -> None:
    (tmp_path / "people.jsonl").write_text(PEOPLE)
    shown = penstock_spark("run", "-e", "SELECT name, age FROM 'people.jsonl' ORDER BY age")
    assert shown.code == 0
    assert shown.out.index("Bo") < shown.out.index("Ada")
    rows = penstock_spark("run", "--json", "-e", "SELECT name, age FROM 'people.jsonl' ORDER BY age")
    assert rows.json == [{"name": "Bo", "age": 7}, {"name": "Ada", "age": 36}]


@pytest.mark.spark
def test_json_rows_are_all_rows(penstock_spark: Penstock) -> None:
    assert len(penstock_spark("run", "--json", "-e", "SELECT id FROM range(50)").json) == 50


@pytest.mark.spark
def test_dead_letters_are_counted_and_named(penstock_spark: Penstock, tmp_path: Path) -> None:
    (tmp_path / "dirty.jsonl").write_text(DIRTY)
    statement = "SELECT name, age FROM 'dirty.jsonl' WITH (on_error = 'dead_letter') INTO 'out/*.parquet'"
    result = penstock_spark("run", "--name", "letters", "--json", "-e", statement)
    assert result.code == 0
    told = result.json[-1]["ran"]
    assert (told["name"], told["rows"], told["rejected"]) == ("letters", 2, 1)
    assert "dead_letters" in told["dead_letters"][0]


@pytest.mark.spark
def test_a_bad_record_is_2_and_leaves_nothing(penstock_spark: Penstock, tmp_path: Path) -> None:
    (tmp_path / "dirty.jsonl").write_text(DIRTY)
    result = penstock_spark("run", "-e", "SELECT name FROM 'dirty.jsonl' INTO 'out/*.parquet'")
    assert result.code == 2
    assert "error[bad-record]" in result.err
    assert "dirty.jsonl" in result.err
    assert not (tmp_path / "out").exists()


@pytest.mark.spark
def test_dry_run_moves_nothing(penstock_spark: Penstock, tmp_path: Path) -> None:
    (tmp_path / "people.jsonl").write_text(PEOPLE)
    result = penstock_spark("run", "--dry-run", "-e", "SELECT name FROM 'people.jsonl' INTO 'out/*.csv'")
    assert result.code == 0
    assert "name:string" in result.out
    assert not (tmp_path / "out").exists()


@pytest.mark.spark
def test_dry_run_in_json(penstock_spark: Penstock, tmp_path: Path) -> None:
    (tmp_path / "people.jsonl").write_text(PEOPLE)
    statement = "SELECT name FROM 'people.jsonl' INTO 'out/*.csv'"
    (told,) = penstock_spark("run", "--dry-run", "--json", "-e", statement).json
    assert "write out/*.csv (files csv)" in told["text"]
    assert told["text"].endswith("columns: struct<name:string>")
    assert not (tmp_path / "out").exists()


@pytest.mark.spark
def test_inspect(penstock_spark: Penstock, tmp_path: Path) -> None:
    for day in (1, 2):
        (tmp_path / f"people/day={day}").mkdir(parents=True)
        (tmp_path / f"people/day={day}/a.csv").write_text("name;age\nAda;36\n")
    shown = penstock_spark("inspect", "people", "-o", "delimiter=;")
    assert shown.code == 0
    for text in ("people (files csv)", "files: 2", "partitions: day (2 values)", "size: 32 B", "Ada"):
        assert text in shown.out
    (found,) = penstock_spark("inspect", "people", "-o", "delimiter=;", "-n", "1", "--json").json
    assert [column["name"] for column in found["columns"]] == ["name", "age", "day"]
    assert found["facts"] == {"files": 2, "size": 32, "partitions": {"day": 2}}
    assert len(found["rows"]) == 1
    assert list(tmp_path.iterdir()) == [tmp_path / "people"]


@pytest.mark.spark
def test_inspect_what_is_not_there(penstock_spark: Penstock) -> None:
    result = penstock_spark("inspect", "nowhere.csv")
    assert result.code == 2
    assert "error[missing-file]" in result.err
