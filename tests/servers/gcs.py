"""fake-gcs-server as Google Cloud Storage, by its JSON API. In memory: a restart forgets all."""

from __future__ import annotations

import json
import tempfile
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from tests.servers.cached import kept, run
from tests.servers.process import Process, free_ports, listens

MODULE = "github.com/fsouza/fake-gcs-server@v1.56.1"
PROJECT = "penstock"


class Gcs(Process):
    """A storage that lets in everybody, and asks for no token."""

    def __init__(self, folder: Path) -> None:
        (self._port,) = free_ports(1)
        command = [
            str(kept("fake-gcs-server", MODULE, _build) / "fake-gcs-server"),
            *("-scheme", "http", "-host", "127.0.0.1", "-port", str(self._port), "-backend", "memory"),
            *("-public-host", f"127.0.0.1:{self._port}", "-external-url", self.endpoint),
        ]
        super().__init__("Google Cloud Storage", command, folder / "gcs.log", self._answers)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def project(self) -> str:
        """The project that its buckets are made in."""
        return PROJECT

    def create_bucket(self, name: str) -> None:
        body = json.dumps({"name": name}).encode()
        self._call("/storage/v1/b", {"project": PROJECT}, body, "application/json")

    def put(self, bucket: str, key: str, data: bytes) -> None:
        asked = {"uploadType": "media", "name": key}
        self._call(f"/upload/storage/v1/b/{bucket}/o", asked, data, "application/octet-stream")

    def get(self, bucket: str, key: str) -> bytes:
        return self._call(f"/storage/v1/b/{bucket}/o/{quote(key, safe='')}", {"alt": "media"})

    def keys(self, bucket: str, prefix: str = "") -> list[str]:
        """All keys that begin so, in order."""
        found: list[str] = []
        asked = {"prefix": prefix}
        while True:
            page: Any = json.loads(self._call(f"/storage/v1/b/{bucket}/o", asked))
            found += [entry["name"] for entry in page.get("items", ())]
            if not page.get("nextPageToken"):
                return found
            asked["pageToken"] = page["nextPageToken"]

    def _call(self, path: str, asked: dict[str, str], body: bytes | None = None, kind: str = "") -> bytes:
        """What the API answers: to a POST when there is a body."""
        headers = {"Content-Type": kind} if kind else {}
        request = urllib.request.Request(f"{self.endpoint}{path}?{urlencode(asked)}", body, headers)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return bytes(answer.read())

    def _answers(self) -> bool:
        if not listens(self._port):
            return False
        try:
            self._call("/storage/v1/b", {"project": PROJECT})
        except OSError:
            return False
        return True


def _build(folder: Path) -> None:
    """Builds the server; of Go's own caches, nothing is left."""
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        variables = {
            "GOBIN": str(folder),
            "GOPATH": f"{scratch}/path",
            "GOMODCACHE": f"{scratch}/modules",
            "GOCACHE": f"{scratch}/built",
            "GOFLAGS": "-modcacherw",  # else what is in there cannot be removed
            "CGO_ENABLED": "0",
        }
        run("golang", ["go", "install", MODULE], variables)
