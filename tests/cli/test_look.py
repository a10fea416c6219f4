from __future__ import annotations

from tests.cli.command import Penstock


def test_connectors(penstock: Penstock) -> None:
    result = penstock("connectors")
    assert result.code == 0
    assert {"files", "http", "datagen", "terminal", "memory"} <= {
        line.split()[0] for line in result.out.splitlines() if line.strip()
    }


def test_connectors_json(penstock: Penstock) -> None:
    found = {fact["name"]: fact for fact in penstock("connectors", "--json").json}
    assert found["files"]["use"] == ["source", "sink"]
    assert "file://" in found["files"]["schemes"]
    assert {"bounded", "append"} <= set(found["files"]["capabilities"])
    assert all(fact["guarantee"] for fact in found.values())


def test_formats(penstock: Penstock) -> None:
    found = {fact["name"]: fact for fact in penstock("formats", "--json").json}
    assert ".jsonl" in found["json"]["extensions"]
    assert "tsv" in penstock("formats").out


def test_describe_connector(penstock: Penstock) -> None:
    result = penstock("describe", "files")
    assert result.code == 0
    for text in ("source options", "sink options", "partition_by", "required", "append | overwrite"):
        assert text in result.out


def test_describe_by_an_alias(penstock: Penstock) -> None:
    assert penstock("describe", "filesystem").out == penstock("describe", "files").out


def test_describe_json(penstock: Penstock) -> None:
    (found,) = penstock("describe", "files", "--json").json
    options = {option["name"]: option for option in found["options"]["source"]}
    assert options["path"]["required"] is True
    assert options["on_error"]["type"] == "fail | skip | dead_letter"
    assert options["on_error"]["default"] == "fail"
    assert all(option["description"] for side in found["options"].values() for option in side)


def test_describe_format(penstock: Penstock) -> None:
    result = penstock("describe", "csv")
    assert "reading options" in result.out
    assert "delimiter" in result.out


def test_describe_what_is_not_there(penstock: Penstock) -> None:
    result = penstock("describe", "file5")
    assert result.code == 2
    assert "did you mean 'files'?" in result.err


def test_inspect_takes_pairs(penstock: Penstock) -> None:
    result = penstock("inspect", "x.csv", "-o", "delimiter")
    assert result.code == 2
    assert "-o takes key=value, not 'delimiter'" in result.err
