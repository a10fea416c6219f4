"""The secret store: a JSON file that only its owner can read, encrypted when a key is given.

With PENSTOCK_SECRET_KEY set (any text), values are encrypted by Fernet under a key derived from it with
scrypt. Names stay readable. Encryption needs `penstock[secrets]`.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from penstock.errors import ConfigError, SetupError

KEY_VARIABLE = "PENSTOCK_SECRET_KEY"

_NAME = re.compile(r"[A-Za-z0-9_.-]+")


@dataclass(frozen=True)
class SecretStore:
    """Secrets by name in the file `path`; `key` is PENSTOCK_SECRET_KEY unless given."""

    path: Path
    key: str | None = field(default_factory=lambda: os.environ.get(KEY_VARIABLE) or None, repr=False)

    def names(self) -> list[str]:
        return sorted(self._read()["secrets"])

    def get(self, name: str) -> str | None:
        content = self._read()
        kept = content["secrets"].get(name)
        return None if kept is None else self._reveal(kept, content["salt"])

    def put(self, name: str, value: str) -> None:
        """Keeps `value`; with a key, everything in the file is encrypted from now on."""
        if not _NAME.fullmatch(name):
            hint = "use letters, digits, '_', '-' and '.'"
            raise ConfigError("bad-secret-name", f"a secret cannot be called '{name}'", hint=hint)
        with self._lock():
            content = self._read()
            secrets = {n: self._reveal(kept, content["salt"]) for n, kept in content["secrets"].items()}
            self._write(secrets | {name: value}, content["salt"])

    def remove(self, name: str) -> bool:
        """Whether there was one to remove."""
        with self._lock():
            content = self._read()
            secrets = {n: self._reveal(kept, content["salt"]) for n, kept in content["secrets"].items()}
            there = secrets.pop(name, None) is not None
            if there:
                self._write(secrets, content["salt"])
            return there

    def _read(self) -> dict[str, Any]:
        try:
            with open(self.path, encoding="utf-8") as file:
                if sys.platform != "win32" and stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
                    raise SetupError(
                        "secrets-readable",
                        f"{self.path} can be read by others",
                        hint=f"chmod 600 {self.path}, and change the secrets in it",
                    )
                content = json.load(file)
        except FileNotFoundError:
            return {"salt": base64.b64encode(os.urandom(16)).decode(), "secrets": {}}
        except OSError as failure:
            raise SetupError("secrets-unreadable", f"cannot read {self.path}: {failure.strerror}") from None
        except (ValueError, RecursionError):
            content = None
        if not _is_store(content):
            hint = "restore it, or remove it and put the secrets again"
            raise SetupError("secrets-damaged", f"{self.path} is not a secret store", hint=hint)
        return content  # type: ignore[no-any-return]  # _is_store looked at its shape

    def _write(self, secrets: dict[str, str], salt: str) -> None:
        hidden = {name: self._hide(value, salt) for name, value in secrets.items()}
        # mkstemp makes it 0600 from the start, and the rename shows either the old file or the new one
        handle, temporary = tempfile.mkstemp(dir=self.path.parent, prefix=".secrets-")
        try:
            with open(handle, "w", encoding="utf-8") as file:
                json.dump({"salt": salt, "secrets": hidden}, file, indent=1)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, self.path)
        except BaseException:
            os.unlink(temporary)
            raise

    @contextmanager
    def _lock(self) -> Iterator[None]:
        """One writer at a time, so that none undoes what another has put."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with open(self.path.with_name(self.path.name + ".lock"), "w") as file:
                if sys.platform != "win32":
                    import fcntl

                    fcntl.flock(file, fcntl.LOCK_EX)
                yield
        except OSError as failure:
            raise SetupError("secrets-unwritable", f"cannot write {self.path}: {failure.strerror}") from None

    def _hide(self, value: str, salt: str) -> dict[str, str]:
        if self.key is None:
            return {"plain": value}
        return {"encrypted": _fernet(self.key, salt).encrypt(value.encode()).decode()}

    def _reveal(self, kept: dict[str, str], salt: str) -> str:
        if "plain" in kept:
            return kept["plain"]
        if self.key is None:
            hint = f"set {KEY_VARIABLE} to the key that it was written with"
            raise SetupError("secret-key-not-set", f"{self.path} is encrypted", hint=hint)
        fernet = _fernet(self.key, salt)
        from cryptography.fernet import InvalidToken

        try:
            return str(fernet.decrypt(kept["encrypted"].encode()).decode())
        except InvalidToken:
            hint = f"set {KEY_VARIABLE} to the key that it was written with"
            raise SetupError("secret-key-wrong", f"the key does not open {self.path}", hint=hint) from None


def _is_store(content: object) -> bool:
    return (
        isinstance(content, dict)
        and isinstance(content.get("salt"), str)
        and isinstance(content.get("secrets"), dict)
        and all(
            isinstance(kept, dict)
            and (kept.keys() == {"plain"} or kept.keys() == {"encrypted"})
            and all(isinstance(text, str) for text in kept.values())
            for kept in content["secrets"].values()
        )
    )


@lru_cache(maxsize=4)
def _fernet(key: str, salt: str) -> Any:
    try:
        from cryptography.fernet import Fernet
    except ImportError:
        raise SetupError(
            "missing-package",
            f"{KEY_VARIABLE} is set, but encryption is not installed",
            hint="pip install 'penstock[secrets]'",
        ) from None
    derived = hashlib.scrypt(key.encode(), salt=salt.encode(), n=2**14, r=8, p=1, dklen=32)
    return Fernet(base64.urlsafe_b64encode(derived))
