from __future__ import annotations

import urllib.error
import urllib.request

import pytest

from penstock.cli.serving import metrics_at
from penstock.metrics import CONTENT_TYPE, REGISTRY
from tests.cli.command import Penstock


def test_metrics_are_served_in_prometheus_text() -> None:
    with metrics_at(0) as address, urllib.request.urlopen(address, timeout=10) as answer:
        assert address.startswith("http://127.0.0.1:")
        assert answer.headers["Content-Type"] == CONTENT_TYPE
        assert answer.read().decode() == REGISTRY.text()


def test_there_is_nothing_else() -> None:
    with metrics_at(0) as address, pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(address.replace("/metrics", "/"), timeout=10)
    assert caught.value.code == 404
    caught.value.close()


def test_a_port_is_free_again_afterwards() -> None:
    with metrics_at(0) as address:
        port = int(address.split(":")[2].partition("/")[0])
        urllib.request.urlopen(address, timeout=10).close()
    with metrics_at(port) as again:
        assert again == address


def test_a_port_that_is_taken_is_told_before_anything_runs(penstock: Penstock) -> None:
    with metrics_at(0) as address:
        port = address.split(":")[2].partition("/")[0]
        result = penstock("run", "-e", "SET spark.x = 1", "--metrics-port", port, "--json")
    assert result.code == 3
    (told,) = result.json
    assert told["error"]["code"] == "metrics-port"
    assert "--metrics-port 0" in told["error"]["hint"]


def test_the_address_is_printed(penstock: Penstock) -> None:
    result = penstock("run", "-e", "SHOW SOURCES", "--metrics-port", "0", "--quiet")
    assert result.err.startswith("metrics: http://127.0.0.1:")
    result = penstock("run", "-e", "SHOW SOURCES", "--metrics-port", "0", "--json")
    assert result.json[0]["metrics"].endswith("/metrics")
