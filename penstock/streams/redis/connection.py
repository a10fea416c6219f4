"""The way to a Redis server, and what it says when something is wrong, in our errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from pydantic import Field

from penstock.errors import DataError, InputError, PenstockError, RunError, SetupError
from penstock.options import Duration, Options, Setting, Size, bind
from penstock.uri import Uri

if TYPE_CHECKING:
    import redis

PORT = 6379


class Connection(Options):
    """What may stand in the query of a redis:// URI."""

    db: int = Field(0, ge=0, description="Number of the database.")
    timeout: Duration = Field(timedelta(seconds=30), description="How long a server may be away.")
    buffer: Size = Field(64 << 20, description="Bytes that a producer holds until they are stored.")
    dedup_window: int = Field(
        100_000, ge=1, description="How many ids a stream remembers, to store no message twice."
    )
    claim_after: Duration = Field(
        timedelta(seconds=30),
        description="When others of its group take over what a silent member holds: longer than it takes for"
        " the messages that it asks for at once, since it says nothing meanwhile.",
    )


def options_of(uri: Uri) -> Connection:
    return bind(Connection, [Setting(key, value) for key, value in uri.query], f"{uri.scheme}://")


def client_of(uri: Uri, options: Connection) -> redis.Redis:
    """A client, which comes to the server with its first command."""
    try:
        import redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry
    except ImportError:
        raise SetupError(
            "missing-package", "redis:// needs the package redis", hint="pip install 'penstock[redis]'"
        ) from None
    host, port = host_and_port(uri, PORT)
    client = redis.Redis(
        host=host,
        port=port,
        db=options.db,
        username=uri.user or None,
        password=uri.password,
        ssl=uri.scheme == "rediss",
        socket_connect_timeout=min(10.0, options.timeout.total_seconds()),
        socket_timeout=options.timeout.total_seconds(),
        # What is tried again, and when, is said here alone: of some things, once is enough.
        retry=Retry(NoBackoff(), 0),
        protocol=2,
        client_name="penstock",
    )
    # Entries as they come: making dicts of them all takes longer than to read them.
    for command in ("XRANGE", "XREVRANGE", "XREAD", "XREADGROUP", "XAUTOCLAIM", "XCLAIM"):
        client.set_response_callback(command, _as_it_is)
    return client


def _as_it_is(answer: Any, **_: Any) -> Any:
    return answer


def told_to(client: redis.Redis, *command: Any) -> Any:
    """The answer to a command word by word: for what redis-py has no method, or only a slow one."""
    return client.execute_command(*command)  # type: ignore[no-untyped-call]


def host_and_port(uri: Uri, default: int) -> tuple[str, int]:
    """Of a URI that names one server."""
    host, colon, port = uri.authority.rpartition(":")
    if not colon or port.endswith("]"):
        host, port = uri.authority, str(default)
    if not host or "," in host or not port.isdigit():
        raise InputError("bad-uri", f"expected one host and port in '{uri}'", hint=f"host:{default}")
    return host.strip("[]"), int(port)


@contextmanager
def explained(uri: Uri) -> Iterator[None]:
    """What Redis raises inside, as our errors."""
    import redis

    try:
        yield
    except redis.RedisError as failure:
        raise explain(failure, uri) from None


def is_passing(failure: BaseException) -> bool:
    """Whether the server was away, or is not ready: trying again makes sense."""
    import redis.exceptions as errors

    if isinstance(failure, errors.AuthenticationError) or _is_about_tls(failure):
        return False
    passing = (errors.ConnectionError, errors.TimeoutError, errors.BusyLoadingError, errors.TryAgainError)
    return isinstance(failure, passing)


def _is_about_tls(failure: BaseException) -> bool:
    return "SSL" in str(failure) or "certificate" in str(failure).lower()


def explain(failure: BaseException, uri: Uri) -> PenstockError:
    import redis.exceptions as errors

    said = str(failure)
    if isinstance(failure, errors.AuthenticationError | errors.NoPermissionError) or said.startswith(
        ("NOAUTH", "WRONGPASS", "NOPERM")
    ):
        who = f" of user '{uri.user}'" if uri.user else ""
        return SetupError(
            "bad-credentials",
            f"the Redis server at {uri.authority} refuses the credentials{who}",
            hint="redis://user:password@host:port; the user needs leave for the stream's keys",
        )
    if _is_about_tls(failure):
        return SetupError(
            "tls",
            f"no secure connection to the Redis server at {uri.authority}: {said}",
            hint="the file that SSL_CERT_FILE names holds the certificates to trust",
        )
    if is_passing(failure):
        return SetupError(
            "server-unreachable",
            f"no Redis server answers at {uri.authority}: {said}",
            hint="check host and port, redis:// or rediss://, and that the server is up",
        )
    if said.startswith("WRONGTYPE"):
        return DataError("not-a-stream", "the key holds no stream", hint="streams have keys of their own")
    if said.startswith("NOGROUP") or "no such key" in said:
        return InputError("missing-stream", "the stream, or the group that read it, was deleted")
    if "OOM" in said[:60]:
        return SetupError("server-full", f"the Redis server at {uri.authority} has no memory left")
    return RunError("redis-failed", f"the Redis server at {uri.authority} says: {said}")
