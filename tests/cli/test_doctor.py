from __future__ import annotations

import socket
from pathlib import Path

import pytest

from penstock.cli.doctor import _fits
from penstock.cli.servers import named, unanswered
from penstock.config import load_project
from tests.cli.command import Penstock, Result


def told(result: Result, name: str) -> list[dict[str, object]]:
    return [line for line in result.json if line["name"] == name]


def test_all_is_well(penstock: Penstock) -> None:
    result = penstock("doctor")
    assert result.code == 0, result.out
    assert all(line.startswith("ok ") for line in result.out.splitlines())


def test_each_wrong_thing_has_a_line_and_a_hint(
    penstock: Penstock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_SUCH_SECRET", raising=False)
    (tmp_path / "state").touch()
    (tmp_path / "penstock.yaml").write_text(
        "state: state\n"
        "data_sources:\n"
        "  orders: {type: files, path: x.csv, password: '${env:NO_SUCH_SECRET}'}\n"
        "  hits: {type: http, url: 'http://127.0.0.1:1/x.csv'}\n"
    )
    result = penstock("doctor", "--json")
    assert result.code == 3
    assert [told(result, name)[0]["ok"] for name in ("state", "secret", "server")] == [False] * 3
    assert all(line["hint"] for line in result.json if not line["ok"])
    assert "NO_SUCH_SECRET" in str(told(result, "secret"))
    assert "127.0.0.1:1 of data source hits: connection refused" in str(told(result, "server"))


def test_a_bad_config_is_a_line(penstock: Penstock, tmp_path: Path) -> None:
    (tmp_path / "penstock.yaml").write_text("nonsense: 1\n")
    result = penstock("doctor", "--json")
    assert result.code == 3
    assert "penstock.yaml:1:1" in str(told(result, "config")[0]["message"])


def test_servers_named_in_many_ways(tmp_path: Path) -> None:
    (tmp_path / "penstock.yaml").write_text(
        "master: spark://m:7077\n"
        "streams: kafka://me:secret@k1,k2:9093\n"
        "data_sources:\n"
        "  a: {type: jdbc, url: 'jdbc:postgresql://db/shop'}\n"
        "  b: {type: mysql, host: my, port: 3307}\n"
        "  c: {type: kafka, bootstrap.servers: 'k3:9092, k4:9092'}\n"
        "  d: {type: files, path: 's3://bucket/x'}\n"
    )
    assert set(named(load_project(tmp_path / "penstock.yaml"))) == {
        ("m", 7077), ("k1", 9092), ("k2", 9093), ("db", 5432), ("my", 3307), ("k3", 9092), ("k4", 9092),
    }  # fmt: skip


def test_a_server_that_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = ("127.0.0.1", server.getsockname()[1])
        assert unanswered([address]) == {}
    assert set(unanswered([address])) == {address}


@pytest.mark.parametrize(
    ("version", "wanted", "fits"),
    [
        ("4.1.3", "<4.2,>=4.1.3", True),
        ("4.2.0", "<4.2,>=4.1.3", False),
        ("4.1.2", ">=4.1.3", False),
        ("9", "", True),
    ],
)
def test_versions(version: str, wanted: str, fits: bool) -> None:
    assert _fits(version, wanted) is fits
