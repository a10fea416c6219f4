"""The way to a NATS server: a connection that lives in an event loop of its own, in a thread."""

from __future__ import annotations

import asyncio
import os
import ssl
import threading
from collections.abc import Coroutine
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import Field, SecretStr

from penstock.errors import DataError, InputError, PenstockError, RunError, SetupError
from penstock.options import Duration, Options, Setting, Size, bind
from penstock.streams.loop import Loop
from penstock.uri import Uri

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.js import JetStreamContext

PORT = 4222
CONNECT = 10.0
Result = TypeVar("Result")


class Connection(Options):
    """What may stand in the query of a nats:// URI."""

    token: SecretStr | None = Field(None, description="Token that lets in, as nats://token@host does.")
    credentials: str | None = Field(
        None, description="File of a user's credentials (.creds), for which the package nkeys is needed."
    )
    tls_trust: str | None = Field(
        None, description="PEM file of the certificates to trust; the system's own unless given."
    )
    tls_certificate: str | None = Field(
        None, description="PEM file of the certificate that lets in, with its key if tls_key names none."
    )
    tls_key: str | None = Field(None, description="PEM file of the key of that certificate.")
    timeout: Duration = Field(timedelta(seconds=30), description="How long a server may be away.")
    buffer: Size = Field(64 << 20, description="Bytes that a producer holds until they are stored.")
    claim_after: Duration = Field(
        timedelta(seconds=30),
        description="When others of its group take over what a silent member holds: longer than it takes for"
        " the messages that it asks for at once, since it says nothing meanwhile.",
    )


def options_of(uri: Uri) -> Connection:
    return bind(Connection, [Setting(key, value) for key, value in uri.query], f"{uri.scheme}://")


class Server:
    """A connection that is made by `open`, and made again when it breaks."""

    def __init__(self, uri: Uri, options: Connection) -> None:
        self.uri = uri
        self.options = options
        self._loop: Loop | None = None
        self._client: Client | None = None
        self._js: JetStreamContext | None = None
        self._errors: list[str] = []
        self._tls: ssl.SSLError | None = None
        """Why there is no secure connection, when it was tried last."""
        self._lock = threading.Lock()

    @property
    def client(self) -> Client:
        if self._client is None:
            raise RunError("closed", "the streamer is closed")
        return self._client

    @property
    def js(self) -> JetStreamContext:
        if self._js is None:
            raise RunError("closed", "the streamer is closed")
        return self._js

    def present(self) -> None:
        """Raises while the connection is broken: what is asked then would be waited for in vain."""
        if not self.client.is_connected:
            raise OSError(self._errors[-1] if self._errors else "the connection broke")

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """The result of what runs in the loop; what NATS raises, as our errors."""
        import nats.errors

        if self._loop is None:
            work.close()
            raise RunError("closed", "the streamer is closed")
        try:
            return self._loop.run(work)
        except (nats.errors.Error, OSError, asyncio.TimeoutError) as failure:
            raise explain(failure, self.uri) from None

    def close(self) -> None:
        with self._lock:
            loop, self._loop = self._loop, None
            client, self._client, self._js = self._client, None, None
            if loop is None:
                return
            if client is not None:
                loop.run(client.close())
            loop.close()

    def open(self) -> None:
        with self._lock:
            if self._client is not None:
                return
            _needed()
            self._loop = self._loop or Loop("nats")
            self._client = self._loop.run(self._connect())
            self._js = self._client.jetstream(timeout=5)

    async def _connect(self) -> Client:
        import nats
        import nats.errors

        self._errors.clear()
        self._tls = None
        self._refused = asyncio.Event()
        servers = [f"nats://{_with_port(server)}" for server in self.uri.authority.split(",")]
        patience = min(CONNECT, self.options.timeout.total_seconds())
        connecting = nats.connect(
            servers,
            **self._login(),
            # Whether it is used, the server says.
            tls=self._context(),
            name="penstock",
            connect_timeout=int(max(1, patience)),
            max_reconnect_attempts=-1,
            reconnect_time_wait=0.1,
            error_cb=self._failed,
        )
        task = asyncio.ensure_future(connecting)
        refused = asyncio.ensure_future(self._refused.wait())
        await asyncio.wait((task, refused), timeout=patience, return_when=asyncio.FIRST_COMPLETED)
        refused.cancel()
        task.cancel()
        try:
            return await task
        except (nats.errors.Error, OSError, asyncio.CancelledError) as failure:
            if self._tls is not None:
                raise _insecure(self.uri, self._tls) from None
            said = "; ".join(dict.fromkeys(self._errors)) or str(failure) or "no answer"
            raise explain(asyncio.TimeoutError(), self.uri, said) from None

    def _login(self) -> dict[str, Any]:
        uri, options = self.uri, self.options
        if options.credentials is not None:
            _exists("bad-credentials", options.credentials)
            try:
                import nkeys  # type: ignore[import-not-found, unused-ignore]  # noqa: F401
            except ImportError:
                raise SetupError(
                    "missing-package", "credentials of NATS need the package nkeys", hint="pip install nkeys"
                ) from None
            return {"user_credentials": options.credentials}
        if options.token is not None:
            return {"token": options.token.get_secret_value()}
        if uri.user and uri.password is None:
            return {"token": uri.user}
        return {"user": uri.user, "password": uri.password} if uri.user else {}

    def _context(self) -> ssl.SSLContext | None:
        options = self.options
        files = (options.tls_trust, options.tls_certificate, options.tls_key)
        if files == (None, None, None):
            return None  # the client makes one, should it be needed
        for file in filter(None, files):
            _exists("tls", file)
        try:
            context = ssl.create_default_context(cafile=options.tls_trust)
            if options.tls_certificate is not None:
                context.load_cert_chain(options.tls_certificate, options.tls_key)
        except ssl.SSLError as failure:
            raise _insecure(self.uri, failure) from None
        return context

    async def _failed(self, failure: Exception) -> None:
        # Kept for who waits in vain; the client itself tries again.
        self._errors[:] = [*self._errors[-4:], str(failure) or type(failure).__name__]
        self._tls = failure if isinstance(failure, ssl.SSLError) else None
        if self._tls is not None or _is_refusal(str(failure)):
            self._refused.set()


def _exists(code: str, file: str) -> None:
    if not os.path.isfile(file):
        raise SetupError(code, f"there is no file '{file}'", hint="its whole path says where it is")


def _insecure(uri: Uri, failure: ssl.SSLError) -> SetupError:
    return SetupError(
        "tls",
        f"no secure connection to the NATS server at {uri.authority}: {failure}",
        hint="tls_trust, or SSL_CERT_FILE, names the file of certificates to trust",
    )


def _is_refusal(said: str) -> bool:
    return "authorization" in said.lower() or "permissions violation" in said.lower()


def _with_port(server: str) -> str:
    return server if server.rpartition(":")[2].isdigit() else f"{server}:{PORT}"


def _needed() -> None:
    try:
        import nats  # noqa: F401
    except ImportError:
        raise SetupError(
            "missing-package", "nats:// needs the package nats-py", hint="pip install 'penstock[nats]'"
        ) from None


def is_passing(failure: BaseException) -> bool:
    """Whether the server was away, or is not ready: trying again makes sense."""
    from nats import errors
    from nats.js import errors as js

    passing = (
        *(asyncio.TimeoutError, OSError, errors.NoRespondersError, errors.ConnectionClosedError),
        *(errors.StaleConnectionError, errors.OutboundBufferLimitError),
        *(js.ServiceUnavailableError, js.NoStreamResponseError),
    )
    return isinstance(failure, passing)


def explain(failure: BaseException, uri: Uri, said: str | None = None) -> PenstockError:
    from nats import errors
    from nats.js import errors as js

    said = said or str(failure) or type(failure).__name__
    if _is_refusal(said):
        who = f" of user '{uri.user}'" if uri.user and uri.password is not None else ""
        return SetupError(
            "bad-credentials",
            f"the NATS server at {uri.authority} refuses the credentials{who}",
            hint="nats://user:password@host:port, or nats://token@host:port",
        )
    if isinstance(failure, errors.MaxPayloadError):
        return DataError("too-large", f"the message is larger than the NATS server at {uri.authority} takes")
    if isinstance(failure, js.NotFoundError):
        return InputError("missing-stream", f"the stream, or the group that read it, is gone: {said}")
    if is_passing(failure) or isinstance(failure, errors.NoServersError):
        return SetupError(
            "server-unreachable",
            f"no NATS server with JetStream answers at {uri.authority}: {said}",
            hint="check host and port, and that the server is up, with JetStream (-js)",
        )
    return RunError("nats-failed", f"the NATS server at {uri.authority} says: {said}")


def missing(stream: str) -> InputError:
    return InputError("missing-stream", f"there is no stream '{stream}'", hint="create it, or send to it")
