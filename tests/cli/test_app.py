"""What holds for every command: exit codes, errors, JSON, start-up."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock import __version__
from penstock.cli import text
from penstock.cli.app import app
from penstock.errors import RunError, SetupError
from tests.cli.command import Penstock

COMMANDS = [
    "run", "check", "fmt", "explain", "inspect", "describe", "connectors", "formats", "init", "demo",
    "doctor", "flux", "tap", "ls", "copy", "stream create", "stream describe", "stream delete",
]  # fmt: skip
WITHOUT_SPARK = [
    ["check", "-e", "SELECT a FROM 'x.csv' WHERE b > 1 INTO 'out/*.parquet'"],
    ["fmt", "-e", "select 1"],
    ["explain", "-e", "SELECT a FROM 'x.csv'"],
    ["describe", "files"],
    ["describe", "csv"],
    ["connectors"],
    ["formats"],
    ["init", "project"],
    ["config", "show", "project/penstock.yaml"],
    ["doctor"],
    ["--help"],
    ["--version"],
]


def test_version(penstock: Penstock) -> None:
    assert penstock("--version").out == f"penstock {__version__}\n"


def test_no_arguments_print_help(penstock: Penstock) -> None:
    result = penstock()
    assert result.code == 0
    assert "Usage: penstock" in result.out


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(command: str) -> None:
    result = CliRunner().invoke(app, [*command.split(), "--help"])
    assert result.exit_code == 0
    assert f"Example: penstock {command}" in result.stdout


@pytest.mark.parametrize(
    "args", [["nonsense"], ["run", "--nonsense"], ["run"], ["check", "x.sql", "-e", "SELECT 1"], ["config"]]
)
def test_wrong_usage_is_2_and_told_on_stderr(penstock: Penstock, args: list[str]) -> None:
    result = penstock(*args)
    assert result.code == 2
    assert result.out == ""
    assert result.err.startswith("error[usage]: ")


def test_a_mistyped_command_is_suggested(penstock: Penstock) -> None:
    assert "Did you mean 'explain'?" in penstock("explian").err


def test_wrong_usage_in_json(penstock: Penstock) -> None:
    result = penstock("run", "--nonsense", "--json")
    assert result.code == 2
    assert result.err == ""
    (line,) = result.json
    assert line["error"]["code"] == "usage"
    assert line["error"]["hint"] == "penstock run --help"


@pytest.mark.parametrize(
    ("failure", "code"),
    [(RunError("boom", "it broke"), 1), (SetupError("no-java", "no Java", hint="get it"), 3)],
)
def test_errors_have_their_exit_code_and_no_traceback(
    penstock: Penstock, monkeypatch: pytest.MonkeyPatch, failure: Exception, code: int
) -> None:
    monkeypatch.setattr(text, "statements", _raising(failure))
    result = penstock("check", "x.sql")
    assert result.code == code
    assert result.err == f"{failure}\n"


def test_a_surprise_is_short_and_names_the_way_to_the_traceback(
    penstock: Penstock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text, "statements", _raising(ZeroDivisionError("by zero\nand more")))
    result = penstock("check", "x.sql")
    assert result.code == 1
    assert "ZeroDivisionError: by zero\n" in result.err
    assert "--debug" in result.err
    assert "Traceback" not in result.err
    with pytest.raises(ZeroDivisionError):
        penstock("--debug", "check", "x.sql")
    monkeypatch.setenv("PENSTOCK_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        penstock("check", "x.sql")


def test_ctrl_c_is_130(penstock: Penstock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "statements", _raising(KeyboardInterrupt()))
    result = penstock("check", "x.sql")
    assert (result.code, result.err) == (130, "interrupted\n")


def _raising(failure: BaseException):  # type: ignore[no-untyped-def]
    def raising(*_: object) -> None:
        raise failure

    return raising


def test_what_needs_no_spark_never_imports_it(tmp_path: Path) -> None:
    script = f"""
import sys
from penstock.cli import main
for args in {WITHOUT_SPARK!r}:
    code = main(args)
    assert code in (0, 3) if args == ["doctor"] else code == 0, args
    loaded = [m for m in ("pyspark", "py4j", "duckdb", "pyarrow") if m in sys.modules]
    assert not loaded, (args, loaded)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_check_imports_neither_spark_nor_rich(tmp_path: Path) -> None:
    script = """
import sys
from penstock.cli import main
assert main(["check", "-e", "SELECT a FROM 'x.csv'"]) == 0
assert not [m for m in ("pyspark", "rich") if m in sys.modules]
"""
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True, stdout=subprocess.DEVNULL)


def test_the_installed_command_answers() -> None:
    command = Path(sys.executable).parent / "penstock"
    done = subprocess.run([command, "fmt", "nowhere.sql"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "error[no-file]: there is no file nowhere.sql\n"


def test_colours_only_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    from penstock.cli import render

    class Terminal:
        def isatty(self) -> bool:
            return True

    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert render.paint("x", "red", Terminal()) != "x"  # type: ignore[arg-type]
    monkeypatch.setenv("NO_COLOR", "1")
    assert render.paint("x", "red", Terminal()) == "x"  # type: ignore[arg-type]


def test_completion_knows_connectors_and_sql_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from penstock.cli.arguments import complete_sql, complete_system

    (tmp_path / "jobs").mkdir()
    for name in ("daily.sql", "data.csv", ".hidden.sql", "jobs/weekly.sql"):
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    assert complete_sql("") == ["daily.sql", "jobs/"]
    assert complete_sql("jobs/w") == ["jobs/weekly.sql"]
    assert complete_sql("nowhere/x") == []
    assert complete_system("fi") == ["files"]
    assert "csv" in complete_system("")


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("penstock conn", ["connectors"]),
        ("penstock describe fi", ["files"]),
        ("penstock run dai", ["daily.sql"]),
        ("penstock explain --phy", ["--physical"]),
    ],
)
def test_a_shell_is_told_how_words_go_on(tmp_path: Path, words: str, found: list[str]) -> None:
    (tmp_path / "daily.sql").touch()
    command = Path(sys.executable).parent / "penstock"
    asked = {
        "_PENSTOCK_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" ")),
    }  # fmt: skip
    done = subprocess.run(
        [command], cwd=tmp_path, env=os.environ | asked, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == found
