from __future__ import annotations

import builtins
import stat
from pathlib import Path
from typing import Any

import pytest

from penstock.config import SecretStore
from penstock.errors import ConfigError, SetupError


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("PENSTOCK_SECRET_KEY", raising=False)
    return tmp_path / "state" / "secrets.json"


def test_put_get_names_remove(path: Path) -> None:
    store = SecretStore(path)
    assert (store.names(), store.get("a"), store.remove("a")) == ([], None, False)
    store.put("b", "two")
    store.put("a", "one")
    store.put("b", "three")
    assert (store.names(), store.get("a"), store.get("b")) == (["a", "b"], "one", "three")
    assert store.remove("a")
    assert store.names() == ["b"]


def test_only_the_owner_can_read_it(path: Path) -> None:
    SecretStore(path).put("a", "hidden")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o644)
    with pytest.raises(SetupError, match="can be read by others") as raised:
        SecretStore(path).get("a")
    assert raised.value.code == "secrets-readable"


def test_encrypted_when_there_is_a_key(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    SecretStore(path).put("old", "hidden-one")
    assert "hidden-one" in path.read_text()
    monkeypatch.setenv("PENSTOCK_SECRET_KEY", "my passphrase")
    SecretStore(path).put("new", "hidden-two")
    assert "hidden" not in path.read_text()
    assert (SecretStore(path).get("old"), SecretStore(path).get("new")) == ("hidden-one", "hidden-two")
    assert "passphrase" not in repr(SecretStore(path))


def test_a_key_that_is_missing_or_wrong(path: Path) -> None:
    SecretStore(path, key="right").put("a", "hidden")
    with pytest.raises(SetupError, match="is encrypted") as raised:
        SecretStore(path).get("a")
    assert "PENSTOCK_SECRET_KEY" in (raised.value.hint or "")
    with pytest.raises(SetupError, match="the key does not open"):
        SecretStore(path, key="wrong").get("a")
    assert SecretStore(path).names() == ["a"]


def test_without_the_package_it_says_what_to_install(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **named: Any) -> Any:
        if name.startswith("cryptography"):
            raise ImportError(name)
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(SetupError) as raised:
        SecretStore(path, key="never used before").put("a", "hidden")
    assert (raised.value.code, raised.value.hint) == ("missing-package", "pip install 'penstock[secrets]'")
    assert not path.exists()


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"salt": "x", "secrets": {"a": "b"}}', "[" * 100_000, "\xff"]
)
def test_a_damaged_file(path: Path, text: str) -> None:
    SecretStore(path).put("a", "b")
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(SetupError, match="is not a secret store"):
        SecretStore(path).get("a")


def test_a_bad_name(path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be called"):
        SecretStore(path).put("a b", "x")


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SetupError, match="cannot write"):
        SecretStore(tmp_path / "file" / "x" / "secrets.json").put("a", "b")
