"""Typed options: spellings, folding, places, durations and sizes."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Literal

import pytest
from pydantic import AliasChoices, Field, SecretStr

from penstock.errors import OptionError, Place
from penstock.options import (
    Duration,
    Options,
    Setting,
    Size,
    bind,
    describe,
    known_keys,
    parse_duration,
    parse_size,
    path_of,
    refuse_unknown,
    split,
)

HERE = Place("a.sql", 3, 7)
THERE = Place("a.sql", 1, 1)


class Shape(Options):
    low: int | None = Field(None, validation_alias=AliasChoices("low", "min"))
    kind: Literal["round", "square"] | None = None


class Topic(Options):
    topic: str = Field(
        description="What to read.", validation_alias=AliasChoices("topic", "kafka.topic", "Name")
    )
    linger: Duration = timedelta(0)
    buffer: Size = 1024
    password: SecretStr | None = None
    properties: dict[str, str] = Field({}, validation_alias=AliasChoices("properties", "kafka.properties"))
    fields: dict[str, Shape] | None = None
    deep: dict[str, dict[str, Any]] = {}
    tags: list[dict[str, str]] = []


def bound(**values: Any) -> Topic:
    return bind(Topic, [Setting("topic", "t"), *(Setting(k, v, HERE) for k, v in values.items())], "kafka")


def refused(settings: list[Setting]) -> OptionError:
    with pytest.raises(OptionError) as caught:
        bind(Topic, settings, "kafka", at=THERE)
    return caught.value


@pytest.mark.parametrize("key", ["topic", "TOPIC", "kafka.topic", "Kafka.Topic", "name"])
def test_every_spelling_binds_to_our_name(key: str) -> None:
    assert bind(Topic, [Setting(key, "t")], "kafka").topic == "t"


def test_known_keys_map_spellings_to_our_names() -> None:
    assert known_keys(Topic)["kafka.topic"] == "topic"
    assert known_keys(Topic)["name"] == "topic"


def test_a_missing_option_names_it_with_its_description() -> None:
    error = refused([])
    assert (error.code, error.at, error.hint) == ("missing-option", THERE, "What to read.")
    assert "'topic'" in error.message
    assert "kafka" in error.message


def test_an_unknown_option_is_underlined_with_the_nearest() -> None:
    error = refused([Setting("topik", "t", HERE)])
    assert (error.code, error.at, error.hint) == ("unknown-option", HERE, "did you mean 'topic'?")


def test_a_bad_value_is_underlined_under_the_key_as_written() -> None:
    error = refused([Setting("kafka.topic", "t"), Setting("Linger", "soon", HERE)])
    assert (error.code, error.at) == ("bad-option", HERE)
    assert "'Linger'" in error.message
    assert "'5 minutes'" in error.message


def test_a_bad_secret_is_not_shown() -> None:
    error = refused([Setting("topic", "t"), Setting("password", ["hunter2"], HERE)])
    assert "hunter2" not in str(error)


def test_the_last_of_several_wins() -> None:
    assert bind(Topic, [Setting("topic", "a"), Setting("kafka.topic", "b")], "kafka").topic == "b"


def test_dotted_keys_fold_into_a_flat_dict_with_their_dots() -> None:
    options = bound(**{"properties.bootstrap.servers": "h:1", "kafka.properties.Acks": "all"})
    assert options.properties == {"bootstrap.servers": "h:1", "Acks": "all"}


def test_dotted_keys_fold_as_deep_as_the_type() -> None:
    assert bound(**{"deep.a.b": 1, "deep.a.c.d": 2, "deep.e.f": 3}).deep == {
        "a": {"b": 1, "c.d": 2},
        "e": {"f": 3},
    }


def test_dotted_keys_fold_into_models_and_keep_the_case_of_names() -> None:
    fields = bound(**{"fields.Amount.min": 1, "fields.Amount.kind": "round"}).fields
    assert fields == {"Amount": Shape(low=1, kind="round")}


def test_dotted_keys_add_to_a_whole_dict_without_changing_it() -> None:
    written = {"a": {"b": 1}}
    assert bound(**{"deep": written, "deep.a.c": 2}).deep == {"a": {"b": 1, "c": 2}}
    assert written == {"a": {"b": 1}}
    assert bound(**{"deep.a.c": 2, "deep": {"x": {}}}).deep == {"a": {"c": 2}, "x": {}}


def test_an_unknown_key_inside_a_model_is_underlined_with_the_nearest() -> None:
    error = refused([Setting("topic", "t"), Setting("fields.amount.knd", "round", HERE)])
    assert (error.code, error.at, error.hint) == ("unknown-option", HERE, "did you mean 'kind'?")
    assert "'fields.amount.knd'" in error.message


def test_a_bad_value_inside_a_model_is_underlined() -> None:
    error = refused([Setting("topic", "t"), Setting("fields.amount.kind", "flat", HERE)])
    assert (error.code, error.at) == ("bad-option", HERE)
    assert "'fields.amount.kind'" in error.message


def test_a_value_cannot_hold_further_keys() -> None:
    error = refused([Setting("topic", "t"), Setting("deep.a", 1), Setting("deep.a.b", 2, HERE)])
    assert (error.code, error.at) == ("bad-option", HERE)
    assert "'deep.a' is set to a value" in error.message


@pytest.mark.parametrize("key", ["topic.x", "tags.x", "nothing.x", "linger.a.b"])
def test_only_dict_fields_take_dotted_keys(key: str) -> None:
    assert path_of(key, Topic) is None


def test_split_hands_each_setting_to_the_first_model_that_knows_it() -> None:
    class Other(Options):
        topic: str = ""
        level: int = 0

    settings = [Setting(k, "1") for k in ("level", "TOPIC", "properties.a", "what")]
    first, second, rest = split(settings, Topic, Other)
    assert [[s.key for s in part] for part in (first, second, rest)] == [
        ["TOPIC", "properties.a"],
        ["level"],
        ["what"],
    ]


def test_refuse_unknown_takes_an_empty_list() -> None:
    refuse_unknown([], "kafka", Topic)
    with pytest.raises(OptionError, match="unknown option 'x' for kafka"):
        refuse_unknown([Setting("x", 1)], "kafka", Topic)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("5 minutes", 300), ("500 ms", 0.5), (30, 30), ("2h", 7200), ("1 DAY", 86400), ("1.5 s", 1.5),
     ("3 milliseconds", 0.003), (timedelta(seconds=4), 4), ("10 min", 600)],
)  # fmt: skip
def test_durations(text: Any, seconds: float) -> None:
    assert parse_duration(text).total_seconds() == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "soon", "5 fortnights", "-1 s", "5 minutes 3", None])
def test_bad_durations(text: Any) -> None:
    with pytest.raises(ValueError, match="expected a duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "size"),
    [("64 MB", 64 << 20), (1024, 1024), ("1.5k", 1536), ("2GiB", 2 << 30), ("7 b", 7), ("1 tb", 1 << 40)],
)
def test_sizes(text: Any, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "big", "5 XB", "-1"])
def test_bad_sizes(text: str) -> None:
    with pytest.raises(ValueError, match="expected a size"):
        parse_size(text)


class Documented(Options):
    """Options of every kind of type, for what people read about them."""

    path: str = Field(description="Where.")
    mode: Literal["append", "overwrite"] | None = None
    wait: Duration = Field(timedelta(seconds=5), validation_alias=AliasChoices("wait", "batch.timeout"))
    buffer: Size | None = None
    names: tuple[str, ...] = ()
    labels: dict[str, int] = Field(default_factory=dict)
    header: bool = True
    delimiter: str = "\t"
    password: SecretStr = SecretStr("x")


def test_describe_tells_what_people_need() -> None:
    told = {option.name: option for option in describe(Documented)}
    assert [(o.name, o.type, o.default) for o in told.values()] == [
        ("path", "text", None),
        ("mode", "append | overwrite", None),
        ("wait", "duration", "5 seconds"),
        ("buffer", "size", None),
        ("names", "list of text", None),
        ("labels", "map of integer", None),
        ("header", "boolean", "true"),
        ("delimiter", "text", "'\\t'"),
        ("password", "secret", "***"),
    ]
    assert [name for name, option in told.items() if option.required] == ["path"]
    assert told["wait"].aliases == ("batch.timeout",)
    assert told["path"].description == "Where."


class Derived(Documented):
    own: int = 1


def test_describe_puts_a_models_own_options_first() -> None:
    assert [option.name for option in describe(Derived)][:2] == ["own", "path"]
