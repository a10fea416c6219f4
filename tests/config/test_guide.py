"""Every YAML block of the guide is a valid file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from penstock.config import find_project, load_endpoint, show
from penstock.config.profiles import built_in

GUIDE = (Path(__file__).parents[2] / "docs/guides/configuration.md").read_text()
BLOCKS = {name: text for text, name in re.findall(r"```yaml\n(# (\S+)\n.*?)```", GUIDE, re.DOTALL)}


@pytest.fixture(autouse=True)
def _there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("configs").mkdir()
    for name, text in BLOCKS.items():
        Path(name).write_text(text)


def test_every_block_has_a_name() -> None:
    assert len(BLOCKS) == GUIDE.count("```yaml") == 5


@pytest.mark.parametrize("name", BLOCKS)
def test_blocks(name: str) -> None:
    assert show(name).lines


def test_the_project() -> None:
    assert sorted(find_project().data_sources) == ["orders_kafka", "people"]


def test_what_is_shown() -> None:
    excerpt = re.search(r"```\n(datasink:\n.*?)```", GUIDE, re.DOTALL)
    assert excerpt is not None
    assert show("configs/risk_alerts.yaml").render().startswith(excerpt[1])


def test_own_profiles() -> None:
    settings = {s.key: s.value for s in load_endpoint("configs/audit_sink.yaml").settings}
    producer = settings["producer"]
    assert isinstance(producer, dict)
    assert (producer["linger.ms"], producer["compression.type"], settings["trigger"]) == (
        2,
        "zstd",
        "1 minute",
    )


def test_the_tables_of_profiles() -> None:
    for name, fast in built_in().performance.items():
        wait, polled = fast.fetch_max_wait_ms, fast.max_poll_records
        assert re.search(rf"\| `{name}` \|[^|]*\| {wait} ms \| {polled} \| {fast.linger_ms} ms \|", GUIDE)
    for name, sure in built_in().delivery.items():
        guarantee = str(sure.delivery_guarantee).replace("_", " ")
        assert f"| `{name}` | {sure.acks} | {sure.linger_ms} ms | {guarantee} |" in GUIDE
