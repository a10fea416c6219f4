from __future__ import annotations

from pathlib import Path

import pytest

from penstock.config import Secret, SecretStore, has_reference, hide, load, resolve, resolve_settings
from penstock.errors import ConfigError, Place, SetupError
from penstock.options import Options, Setting, bind

from .conftest import Write


def test_whole_and_part(write: Write) -> None:
    write("pw.txt", "from a file\n")
    environ = {"USER_NAME": "me", "EMPTY": ""}
    assert resolve("${env:USER_NAME}", environ=environ) == "me"
    assert resolve("a-${env:USER_NAME}-${file:pw.txt}", environ=environ) == "a-me-from a file"
    assert resolve("${env:NONE:-a default}", environ=environ) == "a default"
    assert resolve("[${env:EMPTY:-x}]", environ=environ) == "[]"
    assert resolve("${env:NONE:-}", environ=environ) == ""


def test_inside_lists_and_maps() -> None:
    value = {"a": ["${env:X}", 1, None], "b": {"c": "x${env:X}"}, "d": True}
    assert has_reference(value)
    assert resolve(value, environ={"X": "1"}) == {"a": ["1", 1, None], "b": {"c": "x1"}, "d": True}


def test_what_has_no_reference_stays_as_it_is() -> None:
    for value in ("plain", "${YYYY}", "$x", 5, None):
        assert resolve(value) is value
        assert not has_reference(value)


def test_a_resolved_value_does_not_show_itself() -> None:
    value = resolve("${env:X}", environ={"X": "hunter2"})
    assert isinstance(value, Secret)
    assert "hunter2" not in repr(Setting("a", value)) + repr([value])


def test_not_set_names_what_was_tried_in_order(tmp_path: Path) -> None:
    store = SecretStore(tmp_path / "secrets.json")
    at = Place("a.yaml", 2, 4, 20, "a: x-${secret:db.pw}-y")
    with pytest.raises(SetupError) as raised:
        resolve("x-${secret:db.pw}-y", at=at, secrets=store, environ={})
    error = raised.value
    assert (error.code, error.exit_code) == ("secret-not-set", 3)
    assert error.message == (
        "${secret:db.pw} is not set; tried, in order: environment variable PENSTOCK_SECRET_DB_PW, "
        f"secret store {tmp_path}/secrets.json"
    )
    assert error.at is not None
    assert (error.at.column, error.at.length) == (6, len("${secret:db.pw}"))


@pytest.mark.parametrize(
    ("value", "tried"),
    [
        ("${env:NONE}", "environment variable NONE"),
        ("${file:/no/such/file}", r"file /no/such/file \(does not exist\)"),
        ("${file:/}", r"file / \(is not a file\)"),
        ("${secret:none}", "environment variable PENSTOCK_SECRET_NONE"),
    ],
)
def test_not_set(value: str, tried: str) -> None:
    with pytest.raises(SetupError, match=tried):
        resolve(value, environ={})


def test_a_file_that_is_not_text(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"\xff")
    with pytest.raises(SetupError, match="is not UTF-8 text"):
        resolve(f"${{file:{tmp_path}/x}}")


def test_secrets_come_from_the_environment_first(tmp_path: Path) -> None:
    store = SecretStore(tmp_path / "secrets.json")
    store.put("a", "stored")
    assert resolve("${secret:a}", secrets=store, environ={}) == "stored"
    assert resolve("${secret:a}", secrets=store, environ={"PENSTOCK_SECRET_A": "set"}) == "set"


@pytest.mark.parametrize("text", ["${ENV:X}", "${env:X", "${env:}", "${secret:a b}", "${file:}", "${env:1X}"])
def test_a_misspelt_reference(text: str) -> None:
    with pytest.raises(ConfigError) as raised:
        resolve(text)
    assert raised.value.code == "bad-reference"


def test_settings_are_resolved_and_typed() -> None:
    class Model(Options):
        port: int
        hosts: list[str]

    settings = [Setting("port", "${env:PORT}"), Setting("hosts", ["${env:HOST}", "b"])]
    bound = bind(Model, resolve_settings(settings, environ={"PORT": "80", "HOST": "a"}), "test")
    assert (bound.port, bound.hosts) == (80, ["a", "b"])


def test_a_path_starts_at_the_file_that_it_is_written_in(write: Write) -> None:
    write("sub/pw.txt", "hidden")
    root = load(write("sub/a.yaml", "a: ${file:pw.txt}")).root
    assert resolve(root.items["a"].plain()) == "hidden"


def test_resolved_secrets_are_hidden_in_any_text() -> None:
    resolve(
        "${env:A_PASSWORD} ${env:TOPIC_NAME}", environ={"A_PASSWORD": "hunter2-a", "TOPIC_NAME": "orders"}
    )
    resolve({"password": "${env:B}"}, environ={"B": "hunter2-b"})
    text = "connect hunter2-a orders hunter2-b jdbc:x://me:pw@h"
    assert hide(text) == "connect *** orders *** jdbc:x://me:***@h"
