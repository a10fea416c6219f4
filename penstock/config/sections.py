"""What the parts of a `datasource:` or `datasink:` may say."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field

from penstock.config.check import AtLeastMinusOne, Count, Late, Positive, Text
from penstock.config.references import has_reference
from penstock.options import Options


def _joined(value: Any) -> Any:
    """Kafka writes several policies with a comma; YAML people write a list."""
    if value is None or has_reference(value):
        return value
    parts = value if isinstance(value, list) else str(value).split(",")
    return ",".join(sorted(str(part).strip().lower() for part in parts))


class Schema(Options):
    """`schema:`"""

    key_format: Text | None = Field(None, description="Format of the keys: string, json, avro, ...")
    value_format: Text | None = Field(None, description="Format of the values: json, avro, csv, ...")
    key_field: Text | None = Field(None, description="Column that becomes the key.")
    schema_file: Text | None = Field(None, description="Schema of the values (.avsc), beside this file.")
    schema_registry_url: Text | None = Field(None, description="Where a schema registry answers.")


class Topic(Options):
    """`topic:`"""

    name: Text = Field(description="Name of the topic.")


class TopicConfig(Options):
    """`topic_config:` or `stream.config:`: how a topic is made when it is not there."""

    partitions: Positive | None = Field(None, description="Number of partitions.")
    replication_factor: Positive | None = Field(None, description="Copies of each partition.")
    retention_ms: AtLeastMinusOne | None = Field(None, description="How long records stay; -1 is for ever.")
    retention_bytes: AtLeastMinusOne | None = Field(None, description="How much stays; -1 is no limit.")
    cleanup_policy: Annotated[
        Literal["delete", "compact", "compact,delete"] | Late | None, BeforeValidator(_joined)
    ] = Field(None, description="delete, compact, or both.")
    segment_ms: Positive | None = Field(None, description="When a new segment begins.")
    segment_bytes: Positive | None = None
    segment_index_bytes: Positive | None = None
    segment_jitter_ms: Count | None = None
    compression_type: Text | None = None
    delete_retention_ms: Count | None = None
    file_delete_delay_ms: Count | None = None
    flush_messages: Count | None = None
    flush_ms: Count | None = None
    index_interval_bytes: Count | None = None
    max_compaction_lag_ms: Positive | None = None
    max_message_bytes: Count | None = None
    message_timestamp_after_max_ms: Count | None = None
    message_timestamp_before_max_ms: Count | None = None
    message_timestamp_type: Text | None = None
    min_cleanable_dirty_ratio: float | Late | None = None
    min_compaction_lag_ms: Count | None = None
    min_insync_replicas: Positive | None = None
    preallocate: bool | Late | None = None
    unclean_leader_election_enable: bool | Late | None = None
    remote_storage_enable: bool | Late | None = None
    local_retention_ms: int | Late | None = None
    local_retention_bytes: int | Late | None = None


class Integration(Options):
    """One of `integrations:`; what else it holds is its own."""

    model_config = ConfigDict(extra="allow", frozen=True)

    enabled: bool | Late = True
    recipients: list[Text] | None = None
    channel: Text | None = None
