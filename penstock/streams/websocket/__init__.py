"""Frames of a web socket as messages: `websocket://host:port/path`, and `wss://` with TLS.

At most once to read: what the far end sends while nobody is connected is gone. At least once to send: a
message counts as stored when the far end has answered a ping that followed it, and is sent again when the
connection breaks before. In the mode `repeat` a consumer connects again, in growing pauses; else it has
`ended` when the far end closed, and raises `connection-lost` when the connection broke.
"""

from __future__ import annotations

from penstock.streams.websocket.streamer import WebSocket

__all__ = ["WebSocket"]
