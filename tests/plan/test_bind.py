from __future__ import annotations

from pathlib import Path

import pytest

from penstock.api import Session
from penstock.connectors.s3 import Access
from penstock.errors import OptionError, PenstockError, StatementError
from penstock.plan import explain
from penstock.plan.nodes import Define, Pipeline, Plan, Scan, Transform


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text("id,amount\n1,2.5\n")
    return tmp_path


def bound(text: str) -> Plan:
    return Session().check(text).plans[-1]


def scan(text: str) -> Scan:
    plan = bound(text)
    assert isinstance(plan, Pipeline)
    node = plan.root.inputs[0]
    assert isinstance(node, Scan)
    return node


def fails(text: str) -> PenstockError:
    with pytest.raises(PenstockError) as caught:
        bound(text)
    return caught.value


def test_only_columns_that_the_query_names_are_asked_for() -> None:
    used = scan("SELECT id FROM 'a.csv' WHERE amount > 1").used
    assert used is not None
    assert {"id", "amount"} <= used
    assert scan("SELECT *, id FROM 'a.csv'").used is None
    assert scan("SELECT COUNT(*) FROM 'a.csv'").used is not None


def test_fields_of_the_file_are_asked_for_by_name() -> None:
    assert scan("SELECT id, _metadata.filename FROM 'a.csv'").metadata == {"filename"}
    assert len(scan("SELECT _metadata FROM 'a.csv'").metadata) == 5
    assert scan("SELECT id, filename FROM 'a.csv'").metadata == frozenset()


def test_a_with_belongs_to_the_uri_before_it() -> None:
    plan = bound("SELECT id FROM 'a.csv' WITH (delimiter = ';') INTO 'b.csv' WITH (delimiter = '|')")
    assert isinstance(plan, Pipeline)
    node = plan.root.inputs[0]
    assert isinstance(node, Scan)
    assert node.format is not None
    assert node.format.options.delimiter == ";"
    assert plan.sinks[0].format is not None
    assert plan.sinks[0].format.options.delimiter == "|"


def test_a_with_after_several_sinks_sets_only_the_last_and_says_so() -> None:
    checked = Session().check("SELECT id FROM 'a.csv' INTO 'b.csv', 'c.csv' WITH (mode = 'append')")
    (plan,) = checked.plans
    assert isinstance(plan, Pipeline)
    assert [sink.options.mode for sink in plan.sinks] == [None, "append"]
    assert checked.notes == ("WITH after several sinks sets only the last one, c.csv",)


@pytest.mark.parametrize(
    ("source", "ordered"),
    [
        ("'a.csv'", True),
        ("'a/*.csv'", False),
        ("'a/' WITH (format = 'csv')", False),
        ("'a/*.csv' WITH (watch = true)", False),
        ("'a/*.csv' WITH (watch = true, files_per_batch = 1)", True),
        ("'kafka://localhost:9092/changes'", True),
        ("'stream:///changes'", True),
        ("'delta://lake/a' WITH (watch = true)", False),
        ("'delta://lake/a' WITH (watch = true, changes = true)", True),
        ("'iceberg://lake.shop.a' WITH (watch = true)", False),
        ("'a.csv' a JOIN 'b.csv' b ON a.id = b.id", False),
    ],
)
def test_a_merge_of_rows_that_come_in_no_order_says_so(source: str, ordered: bool) -> None:
    text = f"SELECT * FROM {source} INTO 'delta://lake/t' WITH (merge_on = 'id'{{}})"
    notes = Session().check(text.format("")).notes
    assert [note for note in notes if "order_by tells delta://lake/t" in note] == list(notes)
    assert bool(notes) != ordered
    assert Session().check(text.format(", order_by = 'n'")).notes == ()
    assert Session().check(f"SELECT * FROM {source} INTO 'delta://lake/t'").notes == ()


def test_without_into_rows_go_to_the_terminal() -> None:
    plan = bound("SELECT 1 AS one")
    assert isinstance(plan, Pipeline)
    assert [sink.connector.name for sink in plan.sinks] == ["terminal"]


def test_the_ending_of_a_path_chooses_format_and_compression() -> None:
    plan = bound("SELECT id FROM 'a.csv' INTO 'out/*.jsonl.gz'")
    assert isinstance(plan, Pipeline)
    format = plan.sinks[0].format
    assert format is not None
    assert (format.name, format.suffix) == ("json", ".json.gz")


def test_options_of_connector_and_format_are_typed_together() -> None:
    assert fails("SELECT * FROM 'a.csv' WITH (headr = true)").hint == "did you mean 'header'?"
    assert fails("SELECT * FROM 'a.csv' WITH (on_eror = 'skip')").hint == "did you mean 'on_error'?"
    error = fails("SELECT * FROM 'a.csv'\nWITH (header = 'perhaps')")
    assert isinstance(error, OptionError)
    assert error.at is not None
    assert (error.at.line, error.at.column) == (2, 7)


def test_statements_of_a_text_see_what_those_before_them_made() -> None:
    text = "CREATE VIEW v AS SELECT id FROM 'a.csv'; SELECT * FROM v; DROP VIEW v; SELECT * FROM v"
    error = fails(text)
    assert isinstance(error, StatementError)
    assert (error.code, error.at and error.at.column) == ("unknown-name", text.rindex("v") + 1)
    assert Session().catalog.objects() == []


def test_a_view_is_read_through() -> None:
    plan = bound("CREATE VIEW v AS SELECT id FROM 'a.csv'; SELECT * FROM v w")
    assert isinstance(plan, Pipeline)
    view = plan.root.inputs[0]
    assert isinstance(view, Transform)
    assert [s.label for s in plan.root.scans()] == ["a.csv"]


def test_views_that_read_each_other_are_refused() -> None:
    error = fails(
        "CREATE VIEW a AS SELECT 1 AS x; CREATE VIEW b AS SELECT x FROM a;"
        "CREATE OR REPLACE VIEW a AS SELECT x FROM b"
    )
    assert (error.code, error.message) == ("view-cycle", "view 'a' reads itself: a -> b -> a")


def test_names_come_from_the_project(project: Path) -> None:
    (project / "penstock.yaml").write_text(
        "data_sources:\n  readings:\n    type: files\n    path: a.csv\n    delimiter: ';'\n"
    )
    node = scan("SELECT id FROM readings r")
    assert (node.label, node.options.model_dump()["path"]) == ("readings", "a.csv")


def test_defaults_hold_for_all_of_a_connector_that_say_nothing_else(project: Path) -> None:
    (project / "penstock.yaml").write_text(
        "defaults: {s3: {endpoint: 'http://one', region: here, retries: 3}, files: {recursive: true}}"
    )
    plan = bound("SELECT a FROM 's3://b/x.csv' INTO 's3://b/y/*.csv' WITH (region = 'there')")
    assert isinstance(plan, Pipeline)
    (source,), (sink,) = plan.root.scans(), plan.sinks
    found = [(o.endpoint, o.region) for o in (source.options, sink.options) if isinstance(o, Access)]
    assert found == [("http://one", "here"), ("http://one", "there")]
    assert sink.options.retries == 3
    assert scan("SELECT a FROM 'x.csv'").options.recursive


@pytest.mark.parametrize(
    ("text", "code", "place"),
    [
        ("defaults: {s3: {endpiont: x}}", "unknown-option", "penstock.yaml:1:17"),
        ("defaults: {s4: {endpoint: x}}", "no-connector", "penstock.yaml:1:12"),
    ],
)
def test_defaults_that_nobody_knows(project: Path, text: str, code: str, place: str) -> None:
    (project / "penstock.yaml").write_text(text)
    failure = fails("SELECT a FROM 's3://b/x.csv'")
    assert failure.code == code
    assert str(failure.at).endswith(place)


def test_a_bad_value_in_the_project_is_shown_there(project: Path) -> None:
    (project / "penstock.yaml").write_text(
        "data_sources:\n  readings:\n    type: files\n    path: a.csv\n    header: perhaps\n"
    )
    error = fails("SELECT id FROM readings")
    assert error.at is not None
    assert (error.at.source, error.at.line) == ("penstock.yaml", 5)


def test_insert_takes_its_ends_from_files(project: Path) -> None:
    (project / "source.yaml").write_text("datasource:\n  type: files\n  path: a.csv\n")
    (project / "sink.yaml").write_text("datasink:\n  type: files\n  path: out/*.parquet\n")
    plan = bound(
        "INSERT INTO alerts SELECT id FROM positions"
        " WITH (source_config = 'source.yaml', sink_config = 'sink.yaml', mode = 'append')"
    )
    assert isinstance(plan, Pipeline)
    assert [s.connector.name for s in plan.root.scans()] == ["files"]
    assert plan.sinks[0].options.model_dump()["path"] == "out/*.parquet"
    assert plan.sinks[0].options.mode == "append"


def test_a_missing_config_file_is_placed_at_its_option() -> None:
    error = fails("INSERT INTO a SELECT id FROM b WITH (source_config = 'none.yaml')")
    assert error.at is not None
    assert "none.yaml" in error.message
    assert error.at.column == 38


def test_a_bare_name_is_a_stream_on_the_configured_default(project: Path) -> None:
    (project / "penstock.yaml").write_text("streams: memory://\n")
    assert scan("SELECT * FROM orders").connector.name == "memory"


@pytest.mark.parametrize(
    ("files", "text"),
    [
        (
            {
                "src.yaml": "datasource: {type: files, path: a.csv}\nperformance_profile: balanced\n",
                "snk.yaml": "datasink: {type: files, path: out/*.csv}\ndelivery_profile: critical\n",
            },
            "INSERT INTO b SELECT id FROM a WITH (source_config = 'src.yaml', sink_config = 'snk.yaml')",
        ),
        (
            {
                "penstock.yaml": "performance_profile: balanced\ndelivery_profile: critical\n",
                "src.yaml": "datasource: {type: files, path: a.csv}\n",
                "snk.yaml": "datasink: {type: files, path: out/*.csv}\n",
            },
            "INSERT INTO b SELECT id FROM a WITH (source_config = 'src.yaml', sink_config = 'snk.yaml')",
        ),
        (
            {
                "penstock.yaml": "data_sources:\n"
                "  a: {type: files, path: a.csv, performance_profile: balanced}\n"
            },
            "SELECT id FROM a INTO 'out/*.csv' WITH (delivery_profile = 'critical')",
        ),
        ({}, "CREATE SOURCE a WITH (connector = 'files', path = 'a.csv', performance_profile = 'balanced')"),
    ],
)
def test_profiles_leave_alone_what_a_connector_does_not_know(
    project: Path, files: dict[str, str], text: str
) -> None:
    for name, content in files.items():
        (project / name).write_text(content)
    assert isinstance(bound(text), Pipeline | Define)


def test_a_profile_sets_what_a_connector_knows(project: Path) -> None:
    (project / "penstock.yaml").write_text("performance_profiles: {small: {batch_size: 10}}\n")
    (project / "snk.yaml").write_text(
        "datasink: {type: files, path: out/*.csv}\nperformance_profile: small\n"
    )
    for text in (
        "INSERT INTO b SELECT id FROM 'a.csv' WHERE id > 0 WITH (sink_config = 'snk.yaml')",
        "SELECT id FROM 'a.csv' INTO 'out/*.csv' WITH (performance_profile = 'small')",
    ):
        plan = bound(text)
        assert isinstance(plan, Pipeline)
        assert plan.sinks[0].options.batch_size == 10  # type: ignore[attr-defined]


def test_a_profile_that_sets_nothing_here_says_so() -> None:
    checked = Session().check("SELECT id FROM 'a.csv' WITH (delivery_profile = 'critical')")
    assert checked.notes == ("delivery profile 'critical' has no effect on files",)
    assert fails("SELECT id FROM 'a.csv' WITH (performance_profile = 'fast')").code == "unknown-profile"


def test_a_reference_is_resolved_and_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHERE_IT_IS", "a.csv")
    text = "SELECT id FROM s"
    created = "CREATE SOURCE s (id INT) WITH (connector = 'files', path = '${env:WHERE_IT_IS}'); "
    node = scan(created + text)
    assert node.options.model_dump()["path"] == "a.csv"
    shown = explain.render(bound(created + text))
    assert "${env:WHERE_IT_IS}" in shown
    monkeypatch.delenv("WHERE_IT_IS")
    assert fails(created + text).code == "secret-not-set"


def test_a_dead_letter_needs_the_policy_that_fills_it() -> None:
    error = fails("SELECT id FROM 'a.csv' WITH (dead_letter = 'bad/*.jsonl')")
    assert error.hint == "add on_error = 'dead_letter'"


def test_flinks_table_can_be_read_and_written() -> None:
    table = "CREATE TABLE t (id INT) WITH ('connector' = 'filesystem', 'path' = 'x/', 'format' = 'json');"
    plan = bound(table + "INSERT INTO t SELECT id FROM 'a.csv'")
    assert isinstance(plan, Pipeline)
    assert plan.sinks[0].label == "t"
    assert isinstance(bound(table), Define)


def test_explanations_are_for_people_programs_and_drawings() -> None:
    plan = bound("SELECT id FROM 'a.csv' INTO 'b.csv' WITH (mode = 'append')")
    text, tree, graph = explain.render(plan), explain.to_dict(plan), explain.graph(plan)
    assert "read a.csv (files csv)" in text
    assert "write b.csv (files csv)" in text
    assert tree["sinks"][0]["mode"] == "append"
    assert graph.startswith("flowchart LR\n")
    assert '"b.csv"' in graph
