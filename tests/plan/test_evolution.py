from __future__ import annotations

from pathlib import Path

import pytest

from penstock.api import Session
from penstock.plan import explain, realtime
from penstock.plan.nodes import Pipeline

TOPIC = "'kafka://h:1/t'"
WATCHED = "'in/*.json' WITH (watch = true)"


@pytest.fixture(autouse=True)
def _project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def bound(text: str) -> Pipeline:
    plan = Session().check(text).plans[-1]
    assert isinstance(plan, Pipeline)
    return plan


def evolutions(text: str) -> list[str | None]:
    return [scan.evolution for scan in bound(text).root.scans()]


@pytest.mark.parametrize(
    ("sinks", "expected"),
    [
        ("'out/*.parquet'", "evolve"),
        ("'out/*.parquet', 'kafka://h:1/u'", "evolve"),
        ("'kafka://h:1/u' WITH (format = 'msgpack')", "evolve"),
        ("'kafka://h:1/u' WITH (format = 'csv')", "freeze"),
        ("'kafka://h:1/u' WITH (format = 'avro', schema_registry = 'http://h:2')", "freeze"),
        ("'memory://t', 'out/*.parquet'", "freeze"),
    ],
)
def test_new_columns_are_taken_where_every_sink_can(sinks: str, expected: str) -> None:
    assert evolutions(f"SELECT * FROM {TOPIC} INTO {sinks}") == [expected]
    assert evolutions(f"SELECT * FROM {WATCHED} INTO {sinks}") == [expected]


def test_the_terminal_keeps_no_columns() -> None:
    assert evolutions(f"SELECT * FROM {TOPIC}") == ["evolve"]


def test_a_source_says_otherwise() -> None:
    text = "SELECT * FROM 'kafka://h:1/t' WITH (schema_evolution = 'discard_row') INTO 'memory://t'"
    assert evolutions(text) == ["discard_row"]
    assert "schema_evolution: discard_row" in explain.render(bound(text))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SELECT id FROM 'kafka://h:1/t' WITH ({e})", "names its columns"),
        ("SELECT * FROM 'kafka://h:1/t' WITH (schema_file = 'a.avsc', {e})", "declared"),
        ("SELECT * FROM 'in/*.json' WITH ({e})", "no stream"),
        ("SELECT * FROM 'datagen://?rate=1' WITH ({e})", "the same columns always"),
    ],
)
def test_settled_columns_are_not_governed(text: str, reason: str) -> None:
    plan = bound(text.format(e="schema_evolution = 'freeze'") + " INTO 'out/*.parquet'")
    assert [scan.evolution for scan in plan.root.scans()] == [None]
    (note,) = plan.notes
    assert "schema_evolution has no effect" in note
    assert reason in note
    assert "schema_evolution: " not in explain.render(bound(f"SELECT id FROM {TOPIC} INTO 'out/*.parquet'"))


def test_declared_columns_are_not_governed() -> None:
    create = "CREATE SOURCE s (id INT) WITH (connector = 'kafka', bootstrap_servers = 'h:1', topic = 't');"
    assert evolutions(f"{create} SELECT * FROM s INTO 'out/*.parquet'") == [None]


def test_each_source_of_a_query_by_itself() -> None:
    text = (
        "CREATE VIEW v AS SELECT id FROM 'kafka://h:1/t';"
        f" SELECT * FROM {TOPIC} UNION ALL SELECT * FROM v INTO 'out/*.parquet'"
    )
    assert evolutions(text) == ["evolve", None]


def test_real_time_does_not_look_for_new_fields() -> None:
    live = "SELECT * FROM 'kafka://h:1/t' WITH (real_time = true{more}) INTO 'kafka://h:1/u'"
    assert "schema_evolution = 'evolve'" in str(realtime.obstacle(bound(live.format(more=""))))
    calm = ", schema_evolution = 'discard_value'"
    assert realtime.obstacle(bound(live.format(more=calm))) is None
