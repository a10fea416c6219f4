from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from penstock.config import find_project, load_project
from penstock.errors import ConfigError, OptionError, Place, SetupError
from penstock.options import Setting

from .conftest import Write


def test_a_folder_without_a_file_has_the_default_project(write: Write, tmp_path: Path) -> None:
    write("sub/x", "")
    assert (find_project().state, find_project().master) == (".penstock", "local[*]")
    assert find_project("sub").state == "sub/.penstock"


def test_a_project(write: Write) -> None:
    write(
        "penstock.yaml",
        """
        name: shop
        master: spark://host:7077
        spark:
          spark.sql.shuffle.partitions: 4
          spark.ui.enabled: false
          spark.memory.fraction: 0.5
        warehouse: s3://lake/
        streams: kafka://broker:9092
        performance_profile: balanced
        delivery_profile: mine
        delivery_profiles: {mine: {acks: 1}}
        data_sources:
          people: {type: files, path: people.csv, header: true, gone: ~}
        """,
    )
    project = find_project()
    assert project == find_project("penstock.yaml")
    assert (project.name, project.master, project.streams) == (
        "shop",
        "spark://host:7077",
        "kafka://broker:9092",
    )
    assert project.spark == {
        "spark.sql.shuffle.partitions": "4",
        "spark.ui.enabled": "false",
        "spark.memory.fraction": "0.5",
    }
    people = project.data_sources["people"]
    assert (people.type, str(people.at)) == ("files", "penstock.yaml:14:3")
    assert [(s.key, s.value) for s in people.settings] == [("path", "people.csv"), ("header", True)]


def test_the_state_folder_starts_at_the_file_that_names_it(write: Write) -> None:
    write("base/base.yaml", "state: here")
    assert load_project(write("a/penstock.yaml", "extends: ../base/base.yaml")).state == "base/here"
    assert load_project(write("a/penstock.yaml", "name: x")).state == "a/.penstock"
    assert load_project(write("a/penstock.yaml", "state: s3a://bucket/state")).state == "s3a://bucket/state"


def test_data_sources_merge_by_name(write: Write) -> None:
    write("base.yaml", "data_sources: {a: {type: files, path: x, format: csv}, b: {type: http}}")
    project = load_project(write("p.yaml", "extends: base.yaml\ndata_sources: {a: {path: y}}"))
    assert {s.key: s.value for s in project.data_sources["a"].settings} == {"path": "y", "format": "csv"}
    assert sorted(project.data_sources) == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "code", "place", "hint"),
    [
        ("mastr: local", "unknown-key", "p.yaml:1:1", "did you mean 'master'?"),
        ("master: [a]", "bad-value", "p.yaml:1:9", "Where Spark runs: local[*], spark://, yarn, k8s://."),
        ("name: {a: b}", "bad-value", "p.yaml:1:7", "Name of the project."),
        ("spark:\n  sql.x: 1", "unknown-key", "p.yaml:2:3", "write 'spark.sql.x'"),
        ("spark: {spark.x: [1]}", "bad-value", "p.yaml:1:18", None),
        ("spark: 5", "bad-value", "p.yaml:1:8", None),
        ("data_sources: 5", "bad-value", "p.yaml:1:15", None),
        ("data_sources: {a: 5}", "bad-value", "p.yaml:1:19", None),
        ("data_sources: {a: {x: 5}}", "missing-key", "p.yaml:1:16", "type: kafka"),
        ("defaults: 5", "bad-value", "p.yaml:1:11", None),
        ("defaults: {s3: 5}", "bad-value", "p.yaml:1:16", None),
        ("delivery_profiles: {a: {acks: x}}", "bad-value", "p.yaml:1:31", None),
        ("datasource: {type: x}", "not-a-project", "p.yaml:1:1", None),
    ],
)
def test_bad_values(write: Write, text: str, code: str, place: str, hint: str | None) -> None:
    with pytest.raises(ConfigError) as raised:
        load_project(write("p.yaml", text))
    assert (raised.value.code, str(raised.value.at)) == (code, place)
    assert hint is None or raised.value.hint == hint


def test_a_default_profile_that_is_not_there(write: Write) -> None:
    with pytest.raises(OptionError, match="there is no delivery profile 'criticl'") as raised:
        load_project(write("p.yaml", "delivery_profile: criticl"))
    assert str(raised.value.at) == "p.yaml:1:19"


def test_endpoints_know_the_projects_profiles(write: Write) -> None:
    project = load_project(
        write(
            "p.yaml",
            "performance_profiles: {mine: {max_poll_records: 5}, other: {max_poll_records: 6}}\n"
            "performance_profile: mine\n",
        )
    )
    write("base.yaml", "datasource: {type: kafka}")
    consumers = [
        {
            s.key: s.value
            for s in project.endpoint(write("e.yaml", f"extends: base.yaml\n{text}"), "source").settings
        }
        for text in ("topic: a", "performance_profile: other", "consumer_config: {max_poll_records: 7}")
    ]
    assert [c["consumer"] for c in consumers] == [{"max.poll.records": n} for n in (5, 6, 7)]


def test_set(write: Write) -> None:
    project = load_project(write("p.yaml", "performance_profiles: {mine: {}}\nstreams: kafka://a"))
    at = Place("statement", 1)
    changed = project.with_setting(Setting("streams", "kafka://b", at))
    assert (project.streams, changed.streams, changed.at("streams")) == ("kafka://a", "kafka://b", at)
    chosen = project.with_setting(Setting("performance_profile", "mine"))
    assert chosen.profiles().performance == Setting("performance_profile", "mine")
    for setting, code in [
        (Setting("stream", "x", at), "unknown-setting"),
        (Setting("warehouse", "x", at), "unknown-setting"),
        (Setting("streams", [1], at), "bad-option"),
        (Setting("delivery_profile", "none", at), "unknown-profile"),
    ]:
        with pytest.raises(OptionError) as raised:
            project.with_setting(setting)
        assert (raised.value.code, raised.value.at) == (code, at)


def test_references_are_resolved_when_needed(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(
        "p.yaml", "master: ${env:MASTER:-local[2]}\nspark:\n  spark.x: ${env:X}\nstate: ${env:STATE}\n"
    )
    monkeypatch.setenv("STATE", "there")
    project = load_project(path)
    assert (project.state, project.resolved("master")) == ("there", "local[2]")
    with pytest.raises(SetupError) as raised:
        project.resolved("spark")
    assert str(raised.value.at) == "p.yaml:3:12"
    monkeypatch.setenv("X", "1")
    assert project.resolved("spark") == {"spark.x": "1"}


def test_the_secret_store_stands_beside_the_catalog(write: Write) -> None:
    project = load_project(write("p.yaml", "state: s\nspark: {spark.x: '${secret:x}'}"))
    project.secrets().put("x", "hidden")
    assert Path("s/secrets.json").exists()
    assert project.resolved("spark", project.secrets()) == {"spark.x": "hidden"}
    elsewhere = load_project(write("p.yaml", "state: s3a://b/s"))
    assert elsewhere.secrets().path == Path(".penstock/secrets.json")


def test_a_printed_project_holds_no_secrets(write: Write) -> None:
    path = write("p.yaml", "spark: {spark.secret: hunter2}\ndata_sources: {a: {type: x, password: hunter2}}")
    assert "hunter2" not in repr(load_project(path))


def test_importing_the_configuration_is_cheap() -> None:
    heavy = "{'pyspark', 'py4j', 'duckdb', 'pyarrow', 'sqlglot', 'cryptography'}"
    code = f"import sys, penstock.config; print(sorted({heavy} & set(sys.modules)))"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        == "[]\n"
    )
