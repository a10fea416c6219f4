from __future__ import annotations

import pytest

from penstock.errors import OptionError
from penstock.formats.registry import all_formats, find


def test_every_built_in_format_is_found() -> None:
    assert set(all_formats()) >= {"json", "csv", "parquet", "orc", "avro", "text", "binary", "msgpack"}


@pytest.mark.parametrize(
    ("word", "name", "implied"),
    [
        ("json", "json", {}),
        ("JSONL", "json", {}),
        ("ndjson", "json", {}),
        ("json_lines", "json", {}),
        ("csv", "csv", {}),
        ("tsv", "csv", {"delimiter": "\t"}),
        (".psv", "csv", {"delimiter": "|"}),
        ("pq", "parquet", {}),
        ("txt", "text", {}),
        ("log", "text", {}),
        ("bin", "binary", {}),
        ("mpk", "msgpack", {}),
    ],
)
def test_names_aliases_and_endings(word: str, name: str, implied: dict[str, str]) -> None:
    kind, options = find(word)
    assert (kind.name, options) == (name, implied)


def test_an_unknown_format_names_the_nearest() -> None:
    with pytest.raises(OptionError) as caught:
        find("parket")
    assert caught.value.code == "unknown-format"
    assert caught.value.hint == "did you mean 'parquet'?"


def test_every_option_is_described() -> None:
    for kind in all_formats().values():
        for model in (kind.ReadOptions, kind.WriteOptions):
            for name, field in model.model_fields.items():
                assert field.description, f"{kind.name}.{name}"
