from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import Penstock


def test_init_makes_a_project_that_checks(
    penstock: Penstock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = penstock("init", "shop")
    assert result.code == 0
    assert "next: cd shop && penstock run examples/quickstart.sql" in result.out
    monkeypatch.chdir(tmp_path / "shop")
    assert penstock("check", "examples/quickstart.sql").code == 0
    assert penstock("check", "-e", "SELECT * FROM events").code == 0
    assert penstock("config", "show", "penstock.yaml").code == 0


def test_init_overwrites_nothing(penstock: Penstock, tmp_path: Path) -> None:
    (tmp_path / "penstock.yaml").write_text("name: mine\n")
    result = penstock("init")
    assert result.code == 2
    assert "error[file-exists]" in result.err
    assert [path.name for path in tmp_path.iterdir()] == ["penstock.yaml"]
    assert (tmp_path / "penstock.yaml").read_text() == "name: mine\n"


def test_init_leaves_a_gitignore_alone(penstock: Penstock, tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("mine\n")
    assert ".gitignore" not in penstock("init", "--json").json[0]["files"]
    assert (tmp_path / ".gitignore").read_text() == "mine\n"


def test_init_where_nothing_can_be_made(penstock: Penstock, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = penstock("init", "file/project")
    assert result.code == 3
    assert "error[unwritable-folder]" in result.err


def test_config_show(penstock: Penstock, tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text("master: local[1]\n")
    (tmp_path / "penstock.yaml").write_text("extends: base.yaml\nname: shop\n")
    result = penstock("config", "show", "penstock.yaml")
    assert result.code == 0
    assert "base.yaml:1" in result.out
    assert "penstock.yaml:2" in result.out
    (told,) = penstock("config", "show", "penstock.yaml", "--json").json
    assert {"path": "name", "value": "shop", "source": "penstock.yaml:2"} in told["values"]


def test_config_show_hides_secrets(penstock: Penstock, tmp_path: Path) -> None:
    (tmp_path / "penstock.yaml").write_text(
        "data_sources:\n  a:\n    type: files\n    path: x.csv\n    password: hunter2\n"
    )
    for args in ((), ("--json",)):
        result = penstock("config", "show", "penstock.yaml", *args)
        assert result.code == 0
        assert "hunter2" not in result.out + result.err


def test_config_show_of_a_missing_file(penstock: Penstock) -> None:
    assert "error[config-not-found]" in penstock("config", "show", "nowhere.yaml").err


@pytest.mark.spark
def test_demo_from_start_to_finish(tmp_path: Path) -> None:
    command = Path(sys.executable).parent / "penstock"
    done = subprocess.run(
        [command, "demo", "here"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    result = tmp_path / "here" / "out" / "revenue"
    assert f"The result is in {result}" in done.stdout
    assert list(result.glob("*.parquet"))
    assert "Traceback" not in done.stderr


@pytest.mark.spark
def test_demo_in_json(penstock_spark: Penstock, tmp_path: Path) -> None:
    result = penstock_spark("demo", "here", "--json")
    assert result.code == 0
    *rows, told, last = result.json
    assert all(row["country"] and row["revenue"] > 0 for row in rows)
    assert told["ran"]["rows"] == len(rows) > 0
    assert last == {"folder": str(tmp_path / "here"), "result": str(tmp_path / "here/out/revenue")}
    assert list(Path(last["result"]).glob("*.parquet"))
