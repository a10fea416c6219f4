"""The way to a Pulsar cluster: its brokers by pulsar-client, its admin REST by urllib."""

from __future__ import annotations

import os
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

from pydantic import Field, SecretStr, field_validator

from penstock.errors import DataError, InputError, PenstockError, RunError, SetupError
from penstock.options import Duration, Options, Setting, Size, bind
from penstock.uri import Uri

if TYPE_CHECKING:
    import pulsar

PORT, SECURE_PORT = 6650, 6651
WEB, SECURE_WEB = 8080, 8443
CONNECT = 10.0

_DENIED = {"AuthenticationError", "AuthorizationError", "ErrorGettingAuthenticationData"}
_MISSING = {"TopicNotFound", "SubscriptionNotFound"}
_PASSING = {
    *("Timeout", "ConnectError", "NotConnected", "ReadError", "LookupError", "ServiceUnitNotReady"),
    *("TooManyLookupRequestException", "BrokerMetadataError", "BrokerPersistenceError", "Retryable"),
    *("ConsumerBusy", "ProducerBusy"),
}


class Connection(Options):
    """What may stand in the query of a pulsar:// URI."""

    admin: str | None = Field(
        None, description="Where the admin REST is; http://host:8080, or https://host:8443, unless given."
    )
    token: SecretStr | None = Field(None, description="Token that lets in.")
    tls_trust: str | None = Field(
        None, description="PEM file of the certificates to trust; the system's own unless given."
    )
    timeout: Duration = Field(timedelta(seconds=30), description="How long a server may be away.")
    buffer: Size = Field(64 << 20, description="Bytes that a producer holds until they are stored.")
    batch: Duration = Field(
        timedelta(0), description="How long a producer waits for messages to store together; 0 stores each."
    )

    @field_validator("admin")
    @classmethod
    def _is_web(cls, value: str | None) -> str | None:
        uri = Uri.parse(value or "http://host")
        if uri.scheme not in ("http", "https") or not uri.authority:
            raise ValueError("expected http://host:port or https://host:port")
        if uri.user is not None:
            raise ValueError("expected no credentials, which stand before the brokers or in token")
        return value


def options_of(uri: Uri) -> Connection:
    return bind(Connection, [Setting(key, value) for key, value in uri.query], f"{uri.scheme}://")


class Cluster:
    """Brokers that are reached with the first use."""

    def __init__(self, uri: Uri, options: Connection) -> None:
        self.uri = uri
        self.options = options
        self._lock = threading.Lock()
        self._client: pulsar.Client | None = None
        self._closed = False

    @property
    def secure(self) -> bool:
        return self.uri.scheme == "pulsar+ssl"

    @property
    def patience(self) -> float:
        """Seconds that the servers may be away."""
        return self.options.timeout.total_seconds()

    def hosts(self) -> list[tuple[str, int]]:
        found = []
        for server in self.uri.authority.split(","):
            host, colon, port = server.rpartition(":")
            if not colon or port.endswith("]"):
                host, port = server, str(SECURE_PORT if self.secure else PORT)
            if not host or not port.isdigit():
                raise InputError(
                    "bad-uri", f"expected hosts and ports in '{self.uri}'", hint="pulsar://host:6650"
                )
            found.append((host.strip("[]"), int(port)))
        return found

    def trusted(self) -> str | None:
        """The file of the certificates to trust; None for those that come with Python."""
        file = self.options.tls_trust or os.environ.get("SSL_CERT_FILE")
        if file is not None and not os.path.isfile(file):
            raise SetupError(
                "tls", f"there is no file of certificates '{file}'", hint="tls_trust=/path/to.pem"
            )
        return file

    def client(self) -> pulsar.Client:
        with self._lock:
            if self._closed:
                raise RunError("closed", "the streamer is closed")
            if self._client is None:
                self._client = self._connected()
            return self._client

    def close(self) -> None:
        with self._lock:
            client, self._client, self._closed = self._client, None, True
        if client is not None:
            # Consumers and producers close by themselves; waiting for a server that is away helps nobody.
            client.shutdown()

    def _connected(self) -> pulsar.Client:
        try:
            import pulsar
        except ImportError:
            raise SetupError(
                "missing-package",
                "pulsar:// needs the package pulsar-client",
                hint="pip install 'penstock[pulsar]'",
            ) from None
        hosts = self.hosts()
        self._probe(hosts)
        return pulsar.Client(
            f"{self.uri.scheme}://" + ",".join(_written(*host) for host in hosts),
            authentication=self._authentication(),
            operation_timeout_seconds=max(1, round(min(CONNECT, self.patience))),
            tls_trust_certs_file_path=self.trusted(),
            tls_validate_hostname=True,
            stats_interval_in_seconds=0,
            # Else it would write to stdout, where messages may go.
            logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull),
        )

    def _authentication(self) -> pulsar.Authentication | None:
        import pulsar

        if self.options.token is not None:
            return pulsar.AuthenticationToken(self.options.token.get_secret_value())
        if self.uri.user:
            return pulsar.AuthenticationBasic(self.uri.user, self.uri.password or "")
        return None

    def _probe(self, hosts: list[tuple[str, int]]) -> None:
        """Tells at once what the client would only be tired of after a while, and not why."""
        said = [self._met(host) for host in hosts]
        if all(said):
            raise unreachable(self.uri, "; ".join(dict.fromkeys(said)))

    def _met(self, host: tuple[str, int]) -> str:
        """What is wrong with a server; nothing when it lets us come."""
        try:
            with socket.create_connection(host, min(CONNECT, self.patience)) as link:
                if self.secure:
                    context = ssl.create_default_context(cafile=self.trusted())
                    context.wrap_socket(link, server_hostname=host[0]).close()
        except ssl.SSLError as failure:
            raise tls(self.uri, failure) from None
        except OSError as failure:
            return str(failure.strerror or failure)
        return ""


def _written(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def kind_of(failure: BaseException) -> str:
    """Pulsar's own name of what went wrong."""
    return type(failure).__name__


def is_passing(kind: str) -> bool:
    """Whether the server was away, or is not ready: trying again makes sense."""
    return kind in _PASSING


@contextmanager
def explained(uri: Uri, stream: str = "") -> Iterator[None]:
    """What Pulsar raises inside, as our errors."""
    import pulsar

    try:
        yield
    except pulsar.PulsarException as failure:
        raise explain(kind_of(failure), uri, str(failure), stream) from None


def explain(kind: str, uri: Uri, said: str = "", stream: str = "") -> PenstockError:
    said = said.removeprefix("Pulsar error: ") or kind
    if kind in _DENIED:
        return denied(uri)
    if kind in _MISSING:
        return missing(stream)
    if kind == "MessageTooBig":
        return DataError("too-large", f"the message is larger than the brokers at {uri.authority} take")
    if kind == "AlreadyClosed":
        return RunError("closed", "the streamer is closed")
    if is_passing(kind):
        return unreachable(uri, said)
    return RunError("pulsar-failed", f"the Pulsar cluster at {uri.authority} says: {said}")


def denied(uri: Uri) -> SetupError:
    who = f" of user '{uri.user}'" if uri.user else ""
    return SetupError(
        "bad-credentials",
        f"the Pulsar cluster at {uri.authority} refuses the credentials{who}",
        hint="?token=..., or pulsar://user:password@host:port; they need leave for the topic",
    )


def unreachable(uri: Uri, said: str) -> SetupError:
    return SetupError(
        "server-unreachable",
        f"no Pulsar broker answers at {uri.authority}: {said}",
        hint="check host and port, pulsar:// or pulsar+ssl://, the credentials, and that the broker is up",
    )


def tls(uri: Uri, failure: BaseException) -> SetupError:
    return SetupError(
        "tls",
        f"no secure connection to the Pulsar cluster at {uri.authority}: {failure}",
        hint="tls_trust, or SSL_CERT_FILE, names the file of certificates to trust",
    )


def missing(stream: str) -> InputError:
    return InputError("missing-stream", f"there is no stream '{stream}'", hint="create it, or send to it")
