"""The docs say what is so: their examples run, their links lead somewhere, generated pages are fresh."""

from __future__ import annotations

import importlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, fields
from datetime import timedelta
from importlib.metadata import entry_points
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import error_codes
import pytest
import typer

import docs
from penstock.api import Session
from penstock.cli import main
from penstock.cli.app import app
from penstock.errors import PenstockError
from penstock.sql.parse import parse
from penstock.streams import Capabilities, Streamer
from penstock.streams.file.streamer import FileOptions
from penstock.streams.kafka.connection import Connection as KafkaConnection
from penstock.streams.kafka.options import StreamOptions as KafkaOptions
from penstock.streams.nats.connection import Connection as NatsOptions
from penstock.streams.pulsar.connection import Connection as PulsarOptions
from penstock.streams.redis.connection import Connection as RedisOptions
from penstock.streams.registry import GROUP
from tests.cli.shell import bash
from tests.connectors.conformance import checks_for
from tests.streams.files import stored

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BROKER = "localhost:9092"
STREAMS = ROOT / "docs" / "guides" / "streams-in-python.md"
ORDER = ("file", "kafka", "redis", "pulsar", "nats", "websocket", "stdio")
"""Backends of streams, as tables have them."""
OPTIONS = {
    "file": FileOptions,
    "kafka": KafkaOptions,
    "redis": RedisOptions,
    "pulsar": PulsarOptions,
    "nats": NatsOptions,
}
STORE = "http://localhost:9000"
WITHOUT_SPARK = {"check", "fmt", "explain", "connectors", "describe", "formats", "init", "config", "ps"}


@dataclass(frozen=True)
class Block:
    page: Path
    line: int
    language: str
    words: tuple[str, ...]
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(language: str, page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(page, text.count("\n", 0, match.start()) + 1, match[1], tuple(match[2].split()), match[3])
        for match in FENCE.finditer(text)
        if match[1] == language
    ]


def pages_with(language: str) -> list[Path]:
    return [page for page in PAGES if blocks(language, page)]


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", pages_with("sql"), ids=name)
def test_statements_parse(page: Path) -> None:
    for block in blocks("sql", page):
        assert parse(block.text, str(block))


# The configuration guide describes servers; tests/config reads its files.
@pytest.mark.spark
@pytest.mark.parametrize("page", [p for p in pages_with("sql") if p.stem != "configuration"], ids=name)
def test_statements_run_in_the_order_of_the_page(
    page: Path,
    spark: SparkSession,
    project: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Streams read what there is; the servers of the tests stand in for those of the page."""
    session = Session(spark=spark)
    if any(STORE in block.text for block in blocks("sql", page)):
        s3 = request.getfixturevalue("s3")
        s3.create_bucket("lake")
        monkeypatch.setenv("LAKE_KEY", s3.access_key)
        monkeypatch.setenv("LAKE_SECRET", s3.secret_key)
    for block in blocks("sql", page):
        text = block.text
        if BROKER in text:
            text = text.replace(BROKER, request.getfixturevalue("kafka").bootstrap)
        if STORE in text:
            text = text.replace(STORE, request.getfixturevalue("s3").endpoint)
        if block.words[:1] == ("fails",):
            with pytest.raises(PenstockError) as caught:
                session.run(text, str(block), until_caught_up=True)
            assert caught.value.code == block.words[1], str(caught.value)
        else:
            session.run(text, str(block), until_caught_up=True)


@pytest.mark.parametrize(
    "block",
    [b for p in pages_with("yaml") if p.stem != "configuration" for b in blocks("yaml", p)],
    ids=str,
)
def test_projects_can_be_bound(block: Block, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "penstock.yaml").write_text(block.text, encoding="utf-8")
    for variable in re.findall(r"\$\{env:(\w+)", block.text):
        monkeypatch.setenv(variable, "something")
    with Session() as session:
        sources = [f"'iceberg://{name}.db.t'" for name in session.project.catalogs]
        for source in (*sources, *session.project.data_sources):
            session.check(f"SELECT * FROM {source}")


@pytest.mark.spark
def test_python_runs(project: Path) -> None:
    # A session that it opens is also closed.
    run_python([block for block in python_blocks() if block.page != STREAMS], project)


@pytest.mark.server
def test_python_about_streams_runs_without_spark(project: Path, kafka: Any) -> None:
    run_python(
        blocks("python", STREAMS), project, kafka.bootstrap, "import sys; assert 'pyspark' not in sys.modules"
    )
    assert [(row.key, row.value) for row in kafka.rows("titles")] == [(b"weather", b"Rain")]


def backends() -> dict[str, type[Streamer]]:
    """Each by its first scheme."""
    found = {point.load() for point in entry_points(group=GROUP)}
    return {backend.schemes[0]: backend for backend in sorted(found, key=lambda b: ORDER.index(b.schemes[0]))}


def test_the_guide_to_streams_tells_what_each_backend_can() -> None:
    found = backends()
    rows = [
        [
            f"`{field.name}`",
            *("yes" if getattr(backend.capabilities, field.name) else "" for backend in found.values()),
        ]
        for field in fields(Capabilities)
    ]
    stands_in(STREAMS, table(["", *(f"`{scheme}://`" for scheme in found)], rows))


def test_the_guide_to_streams_tells_what_each_uri_takes() -> None:
    rows = [
        [f"`{scheme}://`", f"`{name}`", shown(field.default), field.description or ""]
        for scheme, options in OPTIONS.items()
        for name, field in options.model_fields.items()
        if name not in KafkaConnection.model_fields
    ]
    stands_in(STREAMS, table(["", "option", "unless given", ""], rows))


def table(titles: list[str], rows: list[list[str]]) -> str:
    lines = [titles, ["---"] * len(titles), *rows]
    return "".join(f"| {' | '.join(line)} |\n".replace("|  ", "| ") for line in lines)


def shown(default: Any) -> str:
    if isinstance(default, timedelta):
        return f"{default.total_seconds():g} s"
    if isinstance(default, int) and default >= 1 << 20:
        return f"{default >> 20} MB"
    return "" if default is None else f"{default:,}" if type(default) is int else str(default).lower()


def stands_in(page: Path, text: str) -> None:
    assert text in page.read_text(encoding="utf-8"), f"{name(page)} is out of date: it must have\n{text}"


def python_blocks() -> list[Block]:
    pages = [page for page in pages_with("python") if page.stem != "CONTRIBUTING"]
    return [block for page in pages for block in blocks("python", page)]


def run_python(found: list[Block], folder: Path, broker: str = BROKER, last: str = "") -> None:
    """In a process of its own, as in an activated environment."""
    text = "\n".join([*(f"# {block}\n{block.text}" for block in found), last])
    (folder / "pages.py").write_text(text.replace(BROKER, broker), encoding="utf-8")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["python", "pages.py"], env=os.environ | {"PATH": path}, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.spark
def test_the_connector_that_shows_how_conforms(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "\n".join(block.text for block in blocks("python", ROOT / "CONTRIBUTING.md"))
    (tmp_path / "numbers_shown.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    subject = importlib.import_module("numbers_shown").NumbersSubject(tmp_path)
    checks = checks_for(subject.connector)
    assert checks
    for check in checks:
        check(spark, subject)


def commands(program: str, *pages: Path) -> list[tuple[str, list[str]]]:
    found = [(b, line) for page in pages or PAGES for b in blocks("sh", page) for line in b.text.splitlines()]
    words = [(str(block), _first_command(shlex.split(line, comments=True))) for block, line in found]
    return [(where, line[1:]) for where, line in words if line[:1] == [program]]


def _first_command(words: list[str]) -> list[str]:
    """Without what a shell does with it."""
    return list(takewhile(lambda word: word not in ("|", "<", ">", "&"), words))


@pytest.mark.parametrize(("where", "arguments"), commands("penstock"))
def test_commands_take_these_arguments(where: str, arguments: list[str]) -> None:
    command, rest = typer.main.get_command(app), arguments
    while rest and rest[0] in getattr(command, "commands", {}):
        command, rest = command.commands[rest[0]], rest[1:]
    command.make_context(where, list(rest))


@pytest.mark.parametrize("page", pages_with("sh"), ids=name)
def test_commands_that_need_no_spark_run(
    page: Path, project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for where, arguments in commands("penstock", page):
        if arguments[0] in WITHOUT_SPARK and "--physical" not in arguments:
            assert main(arguments) == 0, f"{where}: {capfd.readouterr().err}"


# Needs a terminal, goes on for ever, or wants Spark or a server that is not here; tests/cli has it.
NOT_HERE = re.compile(
    r"^(pip|journalctl|cat consumer|penstock run|penstock top (?!.*--once))"
    r"|--follow|--from latest|streams/large|pulsar://|redis://"
)
ENDLESS = re.compile(r"^penstock tap - (?!.*(--no-follow|--until|--limit))")


@pytest.mark.server
def test_the_shell_of_the_guide_to_streams_runs(project: Path, kafka: Any) -> None:
    page = ROOT / "docs" / "guides" / "streams-at-hand.md"
    lines = [line for block in blocks("sh", page) for line in block.text.splitlines()]
    told = [line for line in lines if not NOT_HERE.search(line) and line != "kill %1"]
    script = "\n".join(
        line + (" | head -n 1" if ENDLESS.match(line) else "") for line in map(as_a_script, told)
    )
    for shown, here in (("/tmp/", f"{project}/"), (BROKER, kafka.bootstrap), ("10s", "100ms")):
        script = script.replace(shown, here)
    done = bash(project, f"set -e -o pipefail\n{script}")
    assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
    # Every kind of command is among them.
    assert {line.split()[1] for line in told if line.startswith("penstock")} == {
        "flux", "tap", "ls", "stream", "copy", "top",
    }  # fmt: skip
    assert stored(project / "streams") == ['{"id": 1, "title": "Rain in Ulm"}']


def as_a_script(line: str) -> str:
    """Who types waits until a pipe is there, and ends a job when it has done its work."""
    if line.endswith("&"):
        pipe = line.split()[2]
        return f"{line} there {pipe}" if "flux" in line else "true"
    return f"{line}; kill %%; wait %%" if line.endswith("> producer") else line


@pytest.mark.parametrize("block", [b for p in pages_with("console") for b in blocks("console", p)], ids=str)
def test_commands_print_what_is_shown(block: Block, project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    line, _, shown = block.text.partition("\n")
    main(shlex.split(line.removeprefix("$ penstock ")))
    printed = capfd.readouterr()
    assert printed.out + printed.err == shown


@pytest.mark.parametrize(("where", "arguments"), commands("make"))
def test_make_has_these_targets(where: str, arguments: list[str]) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in (word for word in arguments if "=" not in word):
        assert f"\n{target}: " in makefile, where


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_to_files_and_headings(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s:]*)(#[^)\s]*)?\)", page.read_text(encoding="utf-8")):
        file = page if not target[0] else page.parent / target[0]
        assert file.exists(), f"{target[0]} is not there"
        if target[1]:
            headings = re.findall(r"^#+ (.+)$", file.read_text(encoding="utf-8"), re.MULTILINE)
            slugs = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
            assert target[1][1:] in slugs, f"{target[1]} is no heading of {target[0]}"


def test_stale_pages_are_noticed_and_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(docs, "ROOT", tmp_path)
    monkeypatch.setattr(docs, "REFERENCE", tmp_path / "reference")
    monkeypatch.setattr(docs, "PAGES", {"one": lambda: "text\n"})
    assert docs.main(check=True) == 1
    assert "docs out of date: run 'make docs'" in capsys.readouterr().err
    assert docs.main(check=False) == 0
    assert docs.main(check=True) == 0
    (tmp_path / "reference" / "one.md").write_text("edited\n", encoding="utf-8")
    assert docs.main(check=True) == 1


def test_error_codes_are_followed_to_where_they_are_named(tmp_path: Path) -> None:
    (tmp_path / "room.py").write_text(
        """
def plain(key): raise OptionError("direct", f"unknown '{key.name}'")
def fail(message, *, code="syntax"): raise StatementError(code, message)
def calls():
    message = "from a variable"
    fail("said", code="passed-on")
    fail(message)
""",
        encoding="utf-8",
    )
    assert error_codes.collect(tmp_path) == [
        error_codes.Raised("direct", "OptionError", "unknown '{name}'"),
        error_codes.Raised("passed-on", "StatementError", "said"),
        error_codes.Raised("syntax", "StatementError", "from a variable"),
    ]
