"""Which connector claims what; and that an outsider's connector is one module and one line."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from pydantic import Field

from penstock.connectors import registry
from penstock.connectors.base import Capabilities, Connector, SinkOptions, SourceOptions
from penstock.errors import Place, SetupError, StatementError
from penstock.options import Setting
from penstock.uri import Uri

HERE = Place("a.sql", 2, 6)
DEMO = Path(__file__).parents[1] / "fixtures" / "demo_connector"


class TopicSource(SourceOptions):
    topic: str = Field(description="t")
    servers: str = Field(description="s")
    group: str | None = None


class NameSink(SinkOptions):
    table: str = Field(description="t")


class Queue(Connector):
    name = "queue"
    aliases = ("q",)
    schemes = ("queue", "queues")
    capabilities = Capabilities(bounded=True)
    Source = TopicSource


class Table(Connector):
    name = "table"
    schemes = ("table",)
    capabilities = Capabilities(append=True)
    Sink = NameSink


class OtherQueue(Connector):
    name = "other"
    schemes = ("queue",)
    capabilities = Capabilities(bounded=True)
    Source = TopicSource


def known(*connectors: Connector) -> dict[str, Connector]:
    return {c.name: c for c in connectors}


QUEUE, TABLE, OTHER = Queue(), Table(), OtherQueue()


def settings(**values: Any) -> list[Setting]:
    return [Setting(key, value, HERE) for key, value in values.items()]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("data/*.csv", "files"),
        ("/tmp/x.json", "files"),
        ("file:///tmp/x.json", "files"),
        ("HTTPS://host/x.csv", "http"),
        ("datagen://orders?rows=5", "datagen"),
        ("terminal:", "terminal"),
        ("terminal://", "terminal"),
        ("memory://t", "memory"),
        ("kafka://a:9092,b:9092/orders", "kafka"),
        ("redpanda://a/orders?start=latest", "kafka"),
    ],
)
def test_built_in_connectors_claim_their_uris(text: str, name: str) -> None:
    assert registry.for_uri(Uri.parse(text), HERE).name == name


def test_an_unknown_scheme_names_all_that_were_considered() -> None:
    with pytest.raises(StatementError) as caught:
        registry.for_uri(Uri.parse("qeue://x"), HERE, connectors=known(QUEUE, TABLE))
    error = caught.value
    assert (error.code, error.at) == ("no-connector", HERE)
    assert "queue (queue://, queues://)" in error.message
    assert "table (table://)" in error.message
    assert "did you mean 'queue'?" in str(error.hint)


def test_a_scheme_that_is_not_in_this_version_lists_those_that_are() -> None:
    with pytest.raises(StatementError) as caught:
        registry.for_uri(Uri.parse("xyz://h:9092/t"), HERE)
    known = {"datagen", "file", "http", "https", "kafka", "memory", "redpanda", "s3", "s3a", "terminal"}
    assert known <= set(re.findall(r"\w+", str(caught.value.hint)))
    assert "not in this version" in str(caught.value.hint)


def test_two_that_claim_one_scheme_are_both_named() -> None:
    with pytest.raises(StatementError) as caught:
        registry.for_uri(Uri.parse("queue://x"), HERE, connectors=known(QUEUE, TABLE, OTHER))
    assert caught.value.code == "two-connectors"
    assert "'queue'" in caught.value.message
    assert "'other'" in caught.value.message
    assert caught.value.at == HERE


@pytest.mark.parametrize("key", ["connector", "CONNECTOR", "type", "upstream.source"])
def test_a_named_connector_is_taken_and_its_name_removed(key: str) -> None:
    given = settings(**{key: "Queue", "topic": "t"})
    connector, rest = registry.for_settings(given, "source", HERE, connectors=known(QUEUE, TABLE))
    assert (connector, [s.key for s in rest]) == (QUEUE, ["topic"])


def test_only_the_first_naming_key_names() -> None:
    given = settings(connector="q", type="append-only")
    connector, rest = registry.for_settings(given, "source", HERE, connectors=known(QUEUE, TABLE))
    assert (connector, [s.key for s in rest]) == (QUEUE, ["type"])


def test_an_unknown_name_is_underlined_where_it_stands() -> None:
    with pytest.raises(StatementError) as caught:
        registry.for_settings(settings(connector="qeue"), "source", None, connectors=known(QUEUE, TABLE))
    assert (caught.value.code, caught.value.at) == ("no-connector", HERE)
    assert caught.value.hint == "did you mean 'queue'?"


def test_aliases_are_names() -> None:
    assert registry.by_name("filesystem").name == "files"
    assert registry.by_name("local").name == "files"


def test_required_options_tell_the_connector() -> None:
    given = settings(Topic="t", servers="h", format="json")
    connector, rest = registry.for_settings(given, "source", HERE, connectors=known(QUEUE, TABLE))
    assert (connector, rest) == (QUEUE, given)


def test_no_fitting_connector_tells_what_matched_and_missed() -> None:
    with pytest.raises(StatementError) as caught:
        registry.for_settings(settings(topic="t"), "source", HERE, connectors=known(QUEUE, TABLE))
    error = caught.value
    assert (error.code, error.at) == ("no-connector", HERE)
    assert "queue (matched topic, missed servers)" in error.message
    assert "table" not in error.message


def test_nothing_given_names_every_connector() -> None:
    with pytest.raises(StatementError) as caught:
        registry.for_settings([], "sink", HERE)
    assert "files (missed path)" in caught.value.message
    assert "terminal (requires nothing, so it must be named)" in caught.value.message


def test_two_fitting_connectors_are_both_named() -> None:
    given = settings(topic="t", servers="h")
    with pytest.raises(StatementError) as caught:
        registry.for_settings(given, "source", HERE, connectors=known(QUEUE, OTHER))
    assert caught.value.code == "two-connectors"
    assert "matched topic and servers" in caught.value.message


def test_a_connector_that_does_not_load_is_named() -> None:
    with pytest.raises(SetupError) as caught:
        registry.load(EntryPoint("lost", "no_such_module:Lost", registry.GROUP))
    assert caught.value.code == "broken-connector"
    assert "no_such_module" in caught.value.message


def test_what_is_no_connector_is_refused() -> None:
    with pytest.raises(SetupError, match="is not a"):
        registry.load(EntryPoint("odd", "builtins:dict", registry.GROUP))


def test_loading_connectors_imports_no_heavy_library() -> None:
    code = (
        "import sys; from penstock.connectors import registry; registry.all_connectors();"
        "print([m for m in ('pyspark', 'pyarrow', 'numpy', 'rich', 'duckdb') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment where the demo package is installed."""
    folder = tmp_path_factory.mktemp("site")
    source = tmp_path_factory.mktemp("source") / "demo"
    source.mkdir()
    for file in DEMO.iterdir():
        if file.is_file():
            (source / file.name).write_bytes(file.read_bytes())
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
    ]
    subprocess.run([*pip, "--target", str(folder), str(source)], check=True, capture_output=True)
    return {**os.environ, "PYTHONPATH": str(folder)}


def test_an_outsiders_connector_is_one_module_and_one_line(demo: dict[str, str]) -> None:
    code = (
        "from penstock.connectors import registry; from penstock.uri import Uri;"
        "c = registry.for_uri(Uri.parse('numbers://5')); r = c.reader(c.Source(count=5)); (s,) = r.splits();"
        "print(c.name, [row['n'] for row in r.read(s, r.earliest(s), r.latest(s))])"
    )
    done = subprocess.run([sys.executable, "-c", code], env=demo, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "numbers [1, 2, 3, 4, 5]"
    modules = [file.name for file in DEMO.glob("*.py")]
    lines = [line for line in (DEMO / "pyproject.toml").read_text().splitlines() if "demo_numbers:" in line]
    assert (len(modules), len(lines)) == (1, 1)
