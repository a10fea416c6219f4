from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.cli.command import Penstock

UGLY = "select a,b from 'x.csv' where a>1"


def stdin(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(content)))


def test_check_counts_statements(penstock: Penstock) -> None:
    result = penstock("check", "-e", "SELECT a FROM 'x.csv'; SELECT b FROM 'x.csv' INTO 'out/*.json'")
    assert (result.code, result.out) == (0, "ok: 2 statements\n")


def test_check_json(penstock: Penstock) -> None:
    result = penstock("check", "--json", "-e", "SELECT a FROM 'x.csv'")
    assert result.json == [{"ok": True, "statements": 1, "notes": []}]


def test_check_leaves_nothing_behind(penstock: Penstock, tmp_path: Path) -> None:
    assert penstock("check", "-e", "CREATE SOURCE s WITH (connector = 'files', path = 'x.csv')").code == 0
    assert list(tmp_path.iterdir()) == []


def test_check_notes_what_is_easily_misread(penstock: Penstock) -> None:
    result = penstock("check", "-e", "SELECT 1 AS a INTO 'a/*.csv', 'b/*.csv' WITH (mode = 'append')")
    assert "note: WITH after several sinks sets only the last one" in result.err


def test_an_error_shows_the_place(penstock: Penstock, tmp_path: Path) -> None:
    (tmp_path / "bad.sql").write_text("SELECT a\nFROM 'x.csv' WITH (delimitter = ';')\n")
    result = penstock("check", "bad.sql")
    assert result.code == 2
    assert "--> bad.sql:2:20" in result.err
    assert "did you mean 'delimiter'?" in result.err


def test_an_error_in_json(penstock: Penstock) -> None:
    result = penstock("check", "--json", "-e", "SELECT a FROM 'kafkaa://h/t'")
    assert result.code == 2
    assert result.err == ""
    error = result.json[-1]["error"]
    assert error["code"] == "no-connector"
    assert error["at"] == {"source": "statement", "line": 1, "column": 15}


def test_a_password_in_a_uri_is_not_printed(penstock: Penstock) -> None:
    for args in (("check",), ("check", "--json"), ("explain",)):
        result = penstock(*args, "-e", "SELECT a FROM 'nowhere://me:hunter2@h/t'")
        assert "hunter2" not in result.out + result.err


@pytest.mark.parametrize(
    "source", ["'http://me:hunter2@h/x.csv'", "'http://h/x.csv' k WITH (headers.Authorization = 'hunter2')"]
)
@pytest.mark.parametrize("option", ["--json", "--graph"])
def test_explain_shows_no_secret(penstock: Penstock, source: str, option: str) -> None:
    for args in (("explain",), ("explain", option)):
        result = penstock(*args, "-e", f"SELECT a FROM {source} WHERE b = 'x' INTO 'out/*.csv'")
        assert result.code == 0
        assert "hunter2" not in result.out + result.err


def test_statements_from_stdin(penstock: Penstock, monkeypatch: pytest.MonkeyPatch) -> None:
    stdin(monkeypatch, b"SELECT a FROM 'x.csv';")
    assert penstock("check", "-").out == "ok: 1 statement\n"
    stdin(monkeypatch, b"SELECT FROM WHERE")
    assert "--> stdin:1" in penstock("check", "-").err


@pytest.mark.parametrize(
    ("content", "code"), [(None, "no-file"), (b"SELECT '\xff'", "not-utf-8"), ("folder", "no-file")]
)
def test_a_file_that_cannot_be_read(
    penstock: Penstock, tmp_path: Path, content: bytes | str | None, code: str
) -> None:
    if content == "folder":
        (tmp_path / "x.sql").mkdir()
    elif isinstance(content, bytes):
        (tmp_path / "x.sql").write_bytes(content)
    result = penstock("check", "x.sql")
    assert result.code == 2
    assert result.err.startswith(f"error[{code}]")


def test_a_statement_in_place_of_a_file_is_pointed_out(penstock: Penstock) -> None:
    assert "-e 'SELECT 1'" in penstock("check", "SELECT 1").err


def test_fmt_prints(penstock: Penstock, tmp_path: Path) -> None:
    (tmp_path / "x.sql").write_text(UGLY)
    result = penstock("fmt", "x.sql")
    assert result.code == 0
    assert "SELECT" in result.out
    assert (tmp_path / "x.sql").read_text() == UGLY
    assert penstock("fmt", "-e", UGLY).out == result.out


def test_fmt_write_then_check(penstock: Penstock, tmp_path: Path) -> None:
    for name in ("x.sql", "y.sql"):
        (tmp_path / name).write_text(UGLY)
    (tmp_path / "x.sql").chmod(0o640)
    checked = penstock("fmt", "--check", "x.sql", "y.sql")
    assert checked.code == 2
    assert f"-{UGLY}\n" in checked.out
    assert "+++ y.sql (formatted)\n" in checked.out
    written = penstock("fmt", "--write", "x.sql", "y.sql")
    assert (written.code, written.out) == (0, "")
    assert (tmp_path / "x.sql").read_text() == penstock("fmt", "-e", UGLY).out
    assert (tmp_path / "x.sql").stat().st_mode & 0o777 == 0o640
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.sql", "y.sql"]
    again = penstock("fmt", "--check", "x.sql", "y.sql")
    assert (again.code, again.out) == (0, "")


def test_fmt_json(penstock: Penstock) -> None:
    (told,) = penstock("fmt", "--json", "-e", UGLY).json
    assert told["changed"] is True
    (again,) = penstock("fmt", "--json", "-e", told["text"]).json
    assert again == {"file": "statement", "changed": False, "text": told["text"]}


@pytest.mark.parametrize("args", [["--write", "-e", UGLY], ["--write", "-"], ["--write", "--check", "x.sql"]])
def test_fmt_write_takes_files_only(penstock: Penstock, args: list[str]) -> None:
    assert "error[usage]" in penstock("fmt", *args).err


def test_fmt_of_a_bad_statement_writes_nothing(penstock: Penstock, tmp_path: Path) -> None:
    (tmp_path / "x.sql").write_text("SELECT (")
    assert penstock("fmt", "--write", "x.sql").code == 2
    assert (tmp_path / "x.sql").read_text() == "SELECT ("


def test_explain(penstock: Penstock) -> None:
    result = penstock("explain", "-e", "SELECT a FROM 'x.csv' INTO 'out/*.parquet'")
    assert result.code == 0
    assert "read x.csv (files csv)" in result.out
    assert "write out/*.parquet (files parquet)" in result.out


def test_explain_graph(penstock: Penstock) -> None:
    result = penstock("explain", "--graph", "-e", "SELECT a FROM 'x.csv' INTO 'out/*.parquet'")
    assert result.out.startswith("flowchart LR\n")


def test_explain_json_is_one_object_for_each_statement(penstock: Penstock) -> None:
    result = penstock("explain", "--json", "-e", "SELECT a FROM 'x.csv'; SHOW SOURCES")
    assert [next(iter(plan)) for plan in result.json] == ["pipeline", "show"]


def test_explain_has_one_answer(penstock: Penstock) -> None:
    assert penstock("explain", "--graph", "--physical", "-e", "SELECT 1").code == 2
