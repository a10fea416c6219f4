"""Apicurio as a schema registry, by Confluent's API. In memory: a restart forgets all schemas."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from penstock.engine.java import find_java
from tests.servers import maven
from tests.servers.process import Process, free_ports, listens

VERSION = "2.6.13.Final"  # the last for Java 17
ARCHIVE = f"io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all"
TYPE = "application/vnd.schemaregistry.v1+json"


class Refused(Exception):
    """The registry said no."""

    def __init__(self, status: int, answer: str) -> None:
        super().__init__(f"{status}: {answer}")
        self.status = status


class Registry(Process):
    """A registry that takes any schema, unlike Confluent's, until a subject's compatibility is set."""

    def __init__(self, folder: Path, *, heap: str = "256m") -> None:
        (self._port,) = free_ports(1)
        home = maven.unpacked(f"apicurio-{VERSION}", ARCHIVE)
        command = [
            str(find_java().command),
            f"-Xmx{heap}",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-Dquarkus.http.host=127.0.0.1",
            f"-Dquarkus.http.port={self._port}",
            "-jar",
            str(home / f"apicurio-registry-app-{VERSION}-runner.jar"),
        ]
        super().__init__("the registry", command, folder / "registry.log", self._answers)

    @property
    def url(self) -> str:
        """The root of Confluent's API."""
        return f"http://127.0.0.1:{self._port}/apis/ccompat/v7"

    def register(self, subject: str, schema: Any, kind: str = "AVRO") -> int:
        """Adds a version to a subject, and returns the schema's id."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        answer = self.call("POST", f"/subjects/{subject}/versions", {"schema": text, "schemaType": kind})
        return int(answer["id"])

    def set_compatibility(self, subject: str, level: str) -> None:
        """Sets it to BACKWARD, FORWARD, FULL, their _TRANSITIVE kinds, or NONE; the subject must be there."""
        self.call("PUT", f"/config/{subject}", {"compatibility": level})

    def schema(self, id: int) -> Any:
        """The schema of an id."""
        return json.loads(self.call("GET", f"/schemas/ids/{id}")["schema"])

    def versions(self, subject: str) -> list[int]:
        """The versions of a subject."""
        return [int(version) for version in self.call("GET", f"/subjects/{subject}/versions")]

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """What the API answers."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": TYPE}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as failure:
            with failure:
                raise Refused(failure.code, failure.read().decode(errors="replace")) from None

    def _answers(self) -> bool:
        if not listens(self._port):
            return False
        try:
            self.call("GET", "/subjects")
        except (Refused, OSError):
            return False
        return True
