"""A connection to a web socket, as threads use it.

It lives in an event loop, where one thread both reads and writes: OpenSSL does not allow two threads in one
connection at once.
"""

from __future__ import annotations

import asyncio
import itertools
import ssl
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from penstock.errors import InputError, RunError, SetupError
from penstock.streams.loop import Loop

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

LARGEST = 64 << 20
"""Bytes of a frame."""
AHEAD = 1000
"""Frames that are received before they are asked for."""
ANSWER = 10.0


def pauses() -> Iterator[float]:
    """Seconds between two tries to connect."""
    return itertools.chain((0.1, 0.2, 0.5, 1.0, 2.0, 5.0), itertools.repeat(10.0))


class Lost(RunError):
    """The connection broke, or could not be used to the end."""

    def __init__(self, shown: str, why: str) -> None:
        super().__init__("connection-lost", f"the connection to {shown} broke: {why}")


class Socket:
    """Frames that come are kept until they are taken; or dropped, for who only sends."""

    def __init__(self, loop: Loop, address: str, shown: str, *, drop: bool) -> None:
        self._loop = loop
        self._shown = shown
        self._drop = drop
        self._frames: deque[bytes] = deque()
        self._over: RunError | bool = False
        """Whether the far end has closed; or why it did not so in order."""
        self._connection = loop.run(self._open(address))

    def take(self, most: int, wait: float) -> list[bytes]:
        """The frames that have come; waits for the first."""
        return self._loop.run(self._take(most, wait))

    @property
    def over(self) -> RunError | bool:
        """Whether no more frames will come than were taken; or why."""
        return False if self._frames else self._over

    def deliver(self, frames: list[bytes | str]) -> None:
        """Sends frames, and returns when the far end has received them."""
        self._loop.run(self._deliver(frames))

    def close(self) -> None:
        self._loop.run(self._close())

    async def _open(self, address: str) -> ClientConnection:
        self._arrived, self._room = asyncio.Event(), asyncio.Event()
        connection = await _connected(address, self._shown)
        self._pumping = asyncio.ensure_future(self._pump(connection))
        return connection

    async def _pump(self, connection: ClientConnection) -> None:
        from websockets.exceptions import ConnectionClosed, ConnectionClosedOK

        try:
            while True:
                frame = await connection.recv(decode=False)
                if self._drop:
                    continue
                self._frames.append(frame)
                self._arrived.set()
                if len(self._frames) >= AHEAD:
                    self._room.clear()
                    await self._room.wait()
        except ConnectionClosed as closed:
            self._over = isinstance(closed, ConnectionClosedOK) or Lost(self._shown, str(closed))
            self._arrived.set()

    async def _take(self, most: int, wait: float) -> list[bytes]:
        if not self._frames and not self._over and wait > 0:
            self._arrived.clear()
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._arrived.wait(), wait)
        taken = [self._frames.popleft() for _ in range(min(most, len(self._frames)))]
        self._room.set()
        return taken

    async def _deliver(self, frames: list[bytes | str]) -> None:
        from websockets.exceptions import ConnectionClosed

        try:
            for frame in frames:
                await self._connection.send(frame)
            await asyncio.wait_for(await self._connection.ping(), ANSWER)
        except asyncio.TimeoutError:
            raise Lost(self._shown, f"no answer in {ANSWER:.0f} s") from None
        except ConnectionClosed as closed:
            raise Lost(self._shown, str(closed)) from None

    async def _close(self) -> None:
        self._drop = True
        self._room.set()
        await self._connection.close()
        await self._pumping


async def _connected(address: str, shown: str) -> ClientConnection:
    try:
        from websockets import exceptions
        from websockets.asyncio.client import connect
    except ImportError:
        raise SetupError(
            "missing-package",
            "websocket:// needs the package websockets",
            hint="pip install 'penstock[websocket]'",
        ) from None
    try:
        return await connect(
            address, open_timeout=ANSWER, close_timeout=2, max_size=LARGEST, user_agent_header="penstock"
        )
    except exceptions.InvalidURI:
        raise InputError("bad-uri", f"no address of a web socket: '{shown}'") from None
    except exceptions.InvalidStatus as refused:
        status = refused.response.status_code
        code = "bad-credentials" if status in (401, 403) else "server-refuses"
        raise SetupError(code, f"{shown} answers with the status {status}") from None
    except ssl.SSLError as failure:
        raise SetupError(
            "tls",
            f"no secure connection to {shown}: {failure.reason or failure}",
            hint="the file that SSL_CERT_FILE names holds the certificates to trust",
        ) from None
    except (OSError, asyncio.TimeoutError, exceptions.WebSocketException) as failure:
        raise SetupError(
            "server-unreachable",
            f"no web socket answers at {shown}: {failure}",
            hint="check host, port and path, websocket:// or wss://, and that the server is up",
        ) from None
