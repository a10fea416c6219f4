"""What may stand in the query of a kafka:// URI."""

from __future__ import annotations

from datetime import timedelta

from pydantic import Field

from penstock.options import Duration, Setting, Size, Value, bind
from penstock.streams.kafka.connection import Connection
from penstock.uri import Uri


class StreamOptions(Connection):
    timeout: Duration = Field(timedelta(seconds=30), description="How long the brokers may be away.")
    buffer: Size = Field(64 << 20, description="Bytes that a producer holds until they are stored.")
    create_topic: bool = Field(True, description="Whether a producer makes its topic when it is not there.")
    claim_after: Duration = Field(
        timedelta(seconds=45), description="When others of its group take over what a silent member holds."
    )
    transactional_id: str | None = Field(
        None,
        description="Name of a producer's transactions: who comes with it ends those of the one before.",
    )
    transaction_timeout: Duration = Field(
        timedelta(seconds=60), description="After what time the brokers end a transaction that hangs."
    )


def options_of(uri: Uri) -> StreamOptions:
    told: dict[str, Value] = {"bootstrap_servers": uri.authority}
    if uri.user is not None:
        told |= {"sasl_username": uri.user, "sasl_password": uri.password or ""}
    told |= dict(uri.query)
    return bind(StreamOptions, [Setting(key, value) for key, value in told.items()], f"{uri.scheme}://")
