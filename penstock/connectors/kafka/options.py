"""What a Kafka source and a Kafka sink take."""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import AliasChoices, Field, field_validator, model_validator

from penstock.connectors.kafka.connection import Connection, Plain
from penstock.connectors.messaging.options import MessageSink, MessageSource
from penstock.connectors.messaging.start import Start, parse_start


class Source(Connection, MessageSource):
    topic: tuple[str, ...] = Field(
        (),
        description="The topic; several separated by commas.",
        validation_alias=AliasChoices("topic", "topics", "kafka.topic", "kafka.topics", "subscribe"),
    )
    topic_pattern: str | None = Field(
        None,
        description="A regular expression (Java's) for the names of all topics to read.",
        validation_alias=AliasChoices("topic_pattern", "topic-pattern", "subscribePattern", "topics.regex"),
    )
    consumer: dict[str, Plain] = Field(
        {},
        description="Kafka's own settings of consumers, such as consumer.fetch.max.bytes.",
        validation_alias=AliasChoices("consumer", "consumer_config", "properties", "kafka"),
    )

    @field_validator("topic", mode="before")
    @classmethod
    def _names(cls, value: Any) -> Any:
        parts = value if isinstance(value, list | tuple) else str(value).split(",")
        return tuple(str(part).strip() for part in parts if str(part).strip())

    @model_validator(mode="after")
    def _valid(self) -> Source:
        if bool(self.topic) == bool(self.topic_pattern):
            raise ValueError("expected a topic, or a topic_pattern")
        if self.topic_pattern:
            _ = re.compile(self.topic_pattern)
        _ = self.begin
        return self

    @property
    def begin(self) -> Start | None:
        """Where a new pipeline begins, understood; None when nothing says so."""
        return parse_start(self.start, self.start_timestamp, self.topic)


class Sink(Connection, MessageSink):
    topic: str | None = Field(
        None,
        description="The topic; a row whose column `_topic` names one goes there.",
        validation_alias=AliasChoices("topic", "kafka.topic", "topics"),
    )
    delivery_guarantee: Literal["at_least_once", "exactly_once"] = Field(
        "at_least_once",
        description="exactly_once writes transactions, whose rows consumers with read_committed see once.",
        validation_alias=AliasChoices("delivery_guarantee", "delivery.guarantee", "sink.delivery-guarantee"),
    )
    create_topic: bool = Field(True, description="Whether to make the topic when it is not there.")
    producer: dict[str, Plain] = Field(
        {},
        description="Kafka's own settings of producers, such as producer.compression.type.",
        validation_alias=AliasChoices("producer", "producer_config", "properties", "kafka"),
    )

    @field_validator("delivery_guarantee", mode="before")
    @classmethod
    def _guarantee(cls, value: Any) -> Any:
        return value.lower().replace("-", "_") if isinstance(value, str) else value

    @model_validator(mode="after")
    def _valid(self) -> Sink:
        if self.delivery_guarantee == "exactly_once":
            if not self.topic:
                raise ValueError("exactly_once needs a topic")
            if str(self.producer.get("acks", "all")) not in ("all", "-1"):
                raise ValueError("exactly_once needs acks 'all'")
        return self
