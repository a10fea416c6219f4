"""Which servers a project names, and whether they answer."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from penstock.errors import PenstockError

if TYPE_CHECKING:
    from penstock.config import Project

TIMEOUT = 2.0
PORTS = {
    "kafka": 9092, "spark": 7077, "http": 80, "https": 443, "ws": 80, "wss": 443, "postgresql": 5432,
    "postgres": 5432, "mysql": 3306, "mariadb": 3306, "redis": 6379, "rediss": 6379, "mongodb": 27017,
    "nats": 4222, "pulsar": 6650, "pulsar+ssl": 6651,
}  # fmt: skip
"""Where a server of this scheme listens unless a port is written."""

_URI = re.compile(r"(?:jdbc:)?([a-z][a-z0-9+.-]*)://(?:[^/@\s]*@)?([^/?#\s;]+)", re.IGNORECASE)
_HOST = re.compile(r"(\[[0-9a-fA-F:]+\]|[\w.-]+)(?::(\d{1,5}))?")
_LIST_KEY = re.compile(r"(servers?|brokers?|hosts?|nodes|addresses)$", re.IGNORECASE)

Server = tuple[str, int]


def named(project: Project) -> dict[Server, str]:
    """Every host and port in the settings, and who names it."""
    found: dict[Server, str] = {}
    for name, endpoint in project.data_sources.items():
        values = {
            setting.key: _resolved(project, setting.key, setting.value) for setting in endpoint.settings
        }
        for server in _servers(values):
            found.setdefault(server, f"data source {name}")
    for key in ("streams", "master"):
        for server in _servers({key: _resolved(project, key, getattr(project, key))}):
            found.setdefault(server, key)
    return found


def _resolved(project: Project, key: str, value: Any) -> Any:
    from penstock.config import resolve

    try:
        return resolve(value, key=key, secrets=project.secrets())
    except PenstockError:
        return None  # told among the secrets


def _servers(settings: dict[str, Any]) -> Iterator[Server]:
    port = next((str(v) for k, v in settings.items() if k.rpartition(".")[2] == "port"), "")
    for key, value in settings.items():
        if isinstance(value, dict):
            yield from _servers(value)
        elif isinstance(value, str):
            uris = _URI.findall(value)
            for scheme, hosts in uris:
                yield from _hosts(hosts, PORTS.get(scheme.lower()))
            if not uris and _LIST_KEY.search(key):
                yield from _hosts(value, int(port) if port.isdigit() else None)


def _hosts(text: str, default: int | None) -> Iterator[Server]:
    """`host:port,host:port`; one without a port counts only where the default is known."""
    for part in text.split(","):
        match = _HOST.fullmatch(part.strip())
        port = int(match[2]) if match and match[2] else default
        if match and port and 0 < port < 65536:
            yield match[1].strip("[]"), port


def unanswered(servers: Iterable[Server]) -> dict[Server, str]:
    """Those that no connection can be made to, and why."""
    servers = list(servers)
    with ThreadPoolExecutor(max_workers=16) as pool:
        answers = pool.map(_attempt, servers)
        return {server: why for server, why in zip(servers, answers, strict=True) if why}


def _attempt(server: Server) -> str | None:
    try:
        with socket.create_connection(server, timeout=TIMEOUT):
            return None
    except socket.gaierror:
        return "no such host"
    except TimeoutError:
        return f"no answer in {TIMEOUT:g} seconds"
    except OSError as failure:
        return (failure.strerror or str(failure)).lower()
