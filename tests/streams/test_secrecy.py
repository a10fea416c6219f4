"""No error of a backend shows the password of its URI."""

from __future__ import annotations

import pytest

from penstock.config.redact import hide
from penstock.errors import PenstockError
from penstock.streams import connect

SECRET = "hunter2"
SCHEMES = ("kafka", "redis", "rediss", "nats", "pulsar", "websocket", "wss")


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("odd", ["", "pa'", 'a"b ', "/", "?", "a#"])
@pytest.mark.parametrize("rest", ["", "/a,b", "/news?oops=1", "/a/b/c/d/e"])
def test_no_error_shows_a_password(scheme: str, odd: str, rest: str) -> None:
    uri = f"{scheme}://me:{odd}{SECRET}@127.0.0.1:1{rest}"
    try:
        connect(uri).producer(delivery="exactly_once", format="none")
    except PenstockError as failure:
        said = f"{failure} {failure.to_dict()}"
    else:
        pytest.fail("it was taken")
    assert SECRET not in said
    assert SECRET not in hide(f"connecting to '{uri}' failed")


def test_the_admin_of_pulsar_is_given_no_password() -> None:
    with pytest.raises(PenstockError) as refused:
        connect(f"pulsar://127.0.0.1:1/news?admin=http://me:{SECRET}@127.0.0.1:8080")
    assert refused.value.code == "bad-option"
    assert "no credentials" in refused.value.message
    assert SECRET not in str(refused.value)
