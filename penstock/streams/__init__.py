"""Streams at hand: one way to send, receive and look after messages, on whatever system a URI names.

    from penstock.streams import connect

    with connect("kafka://localhost:9092") as streamer:
        with streamer.producer("news") as producer:
            producer.send({"title": "Rain"}, key="weather")
        with streamer.consumer("news", mode="repeat", group="readers") as consumer:
            for message in consumer:
                print(message.json())

In asyncio, what waits has a form that is awaited, with an `a` before its name:

    async with connect("kafka://localhost:9092") as streamer:
        async with streamer.aproducer("news") as producer:
            await producer.send({"title": "Rain"}, key="weather")
        async with streamer.aconsumer("news", mode="repeat", group="readers") as consumer:
            async for message in consumer:
                print(message.json())

Nothing here needs Spark.
"""

from __future__ import annotations

from penstock.streams.base import (
    Admin,
    Capabilities,
    Client,
    Consumer,
    Description,
    Place,
    Producer,
    Receipt,
    Retention,
    Shard,
    Streamer,
)
from penstock.streams.message import Message, Record
from penstock.streams.positions import Positions
from penstock.streams.registry import connect

__all__ = [
    "Admin", "Capabilities", "Client", "Consumer", "Description", "Message", "Place", "Positions", "Producer",
    "Receipt", "Record", "Retention", "Shard", "Streamer", "connect",
]  # fmt: skip
