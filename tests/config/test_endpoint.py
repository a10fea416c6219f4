from __future__ import annotations

from typing import Any

import pytest

from penstock.config import Endpoint, load_endpoint
from penstock.errors import ConfigError, OptionError, Place
from penstock.options import Setting

from .conftest import Write

SOURCE = "datasource:\n  type: kafka\n"
SINK = "datasink:\n  type: kafka\n"


def settings(endpoint: Endpoint) -> dict[str, Any]:
    return {setting.key: setting.value for setting in endpoint.settings}


def test_the_nearest_file_wins_wherever_it_writes_a_key(write: Write) -> None:
    write("base.yaml", SOURCE + "  schema: {value_format: avro, key_format: avro}\n")
    write("mid.yaml", "extends: base.yaml\nschema: {value_format: json}\n")
    path = write("own.yaml", "extends: mid.yaml\ndatasource: {schema: {value_format: csv}}\n")
    assert settings(load_endpoint(path)) == {"key.format": "avro", "format": "csv"}


def test_a_base_of_common_keys_without_a_section(write: Write) -> None:
    write("base.yaml", "schema: {value_format: avro}\nheaders: {team: a}\n")
    path = write("own.yaml", "extends: base.yaml\ndatasink: {type: kafka, headers: {team: b}}\n")
    assert settings(load_endpoint(path)) == {"format": "avro", "headers": {"team": "b"}}


def test_a_spelling_does_not_hide_a_value_from_its_derived_file(write: Write) -> None:
    write(
        "base.yaml",
        SOURCE + "  consumer_config: {session.timeout.ms: 1}\n  topic_config: {retention.ms: 1}\n",
    )
    path = write(
        "own.yaml",
        "extends: base.yaml\nconsumer_config: {session_timeout_ms: 2}\nstream.config: {retention_ms: 2}\n",
    )
    assert settings(load_endpoint(path)) == {
        "consumer": {"session.timeout.ms": 2},
        "topic_config": {"retention.ms": 2},
    }


def test_topic_config_wins_over_stream_config_in_one_file(write: Write) -> None:
    path = write(
        "a.yaml", SOURCE + "  topic_config: {partitions: 1}\n  stream.config: {partitions: 2, flush_ms: 3}\n"
    )
    assert settings(load_endpoint(path)) == {"topic_config": {"partitions": 1, "flush.ms": 3}}


def test_a_topic_may_be_just_a_name(write: Write) -> None:
    write("base.yaml", SOURCE + "  topic: {name: a}\n")
    assert settings(load_endpoint(write("own.yaml", "extends: base.yaml\ntopic: 007\n"))) == {"topic": "007"}


def test_a_null_takes_away_what_the_base_says(write: Write) -> None:
    write(
        "base.yaml", SINK + "  headers: {a: b}\n  format: json\n  producer_config: {acks: 1, linger_ms: 2}\n"
    )
    path = write("own.yaml", "extends: base.yaml\nheaders:\nformat: ~\nproducer_config: {acks: ~}\n")
    assert settings(load_endpoint(path)) == {"producer": {"linger.ms": 2}}
    path = write("own.yaml", "extends: base.yaml\nheaders: {a: , c: d}\nproducer_config:\n")
    assert settings(load_endpoint(path)) == {"headers": {"c": "d"}, "format": "json"}


def test_other_keys_are_the_connectors_options(write: Write) -> None:
    path = write(
        "a.yaml", "datasource:\n  type: Files\n  path: data/*.csv\n  header: true\n  columns: [a, b]\n"
    )
    endpoint = load_endpoint(path)
    assert endpoint.type == "files"
    assert settings(endpoint) == {"path": "data/*.csv", "header": True, "columns": ["a", "b"]}
    at = endpoint.settings[1].at
    assert at is not None
    assert (str(at), at.length) == ("a.yaml:4:3", len("header: true"))


def test_paths_start_at_the_file_that_names_them(write: Write) -> None:
    write("base/b.yaml", SOURCE + "  schema: {schema_file: s/a.avsc}\n  password: ${file:pw.txt}\n")
    given = settings(load_endpoint(write("own/o.yaml", "extends: ../base/b.yaml\n")))
    assert given == {"schema_file": "base/s/a.avsc", "password": "${file:base/pw.txt}"}


@pytest.mark.parametrize("path", ["/x/a.avsc", "s3://b/a.avsc", "${env:DIR}/a.avsc"])
def test_paths_that_stand_as_they_are(write: Write, path: str) -> None:
    given = settings(load_endpoint(write("a/a.yaml", SOURCE + f"  schema: {{schema_file: '{path}'}}\n")))
    assert given == {"schema_file": path}


def test_several_brokers_as_a_list(write: Write) -> None:
    path = write("a.yaml", SOURCE + "  consumer_config: {bootstrap_servers: ['a:1', 'b:2']}\n")
    assert settings(load_endpoint(path)) == {"bootstrap.servers": "a:1,b:2"}


def test_references_stay_until_they_are_needed(write: Write) -> None:
    path = write(
        "a.yaml",
        SOURCE + "  consumer_config: {session_timeout_ms: '${env:T}', auto_offset_reset: '${env:S}'}\n"
        "  topic_config: {partitions: '${env:P:-3}', cleanup_policy: '${env:C}'}\n",
    )
    assert settings(load_endpoint(path)) == {
        "start": "${env:S}",
        "consumer": {"session.timeout.ms": "${env:T}"},
        "topic_config": {"partitions": "${env:P:-3}", "cleanup.policy": "${env:C}"},
    }


def test_what_has_no_effect_is_said(write: Write) -> None:
    path = write(
        "a.yaml",
        SOURCE + "  producer_config: {acks: all}\n  headers: {a: b}\n  delivery_profile: critical\n"
        "  consumer_config: {key_deserializer: x, sesion_timeout_ms: 5}\n",
    )
    endpoint = load_endpoint(path)
    assert settings(endpoint) == {"consumer": {"sesion.timeout.ms": 5}}
    assert endpoint.notes == (
        "producer_config has no effect on a source",
        "headers have no effect on a source",
        "consumer setting 'key.deserializer' has no effect: key_format says how keys are read",
        "Kafka knows no consumer setting 'sesion.timeout.ms'; did you mean 'session.timeout.ms'?",
        "delivery_profile has no effect on a source",
    )


def test_a_file_with_both_is_asked_for_one(write: Write) -> None:
    path = write("a.yaml", "datasource: {type: kafka, topic: a}\ndatasink: {type: files, path: b}\n")
    assert settings(load_endpoint(path, role="sink")) == {"path": "b"}
    assert settings(load_endpoint(path, role="source")) == {"topic": "a"}
    with pytest.raises(ConfigError, match="both datasource and datasink"):
        load_endpoint(path)


def test_the_wrong_side(write: Write) -> None:
    with pytest.raises(ConfigError, match=r"a\.yaml has no 'datasource:', only 'datasink:'"):
        load_endpoint(write("a.yaml", SINK), role="source")


@pytest.mark.parametrize(
    ("text", "code", "place"),
    [
        ("topic: a", "missing-section", "a.yaml:1:1"),
        ("datasource: {topic: a}", "missing-key", "a.yaml:1:1"),
        ("datasource: 5", "bad-value", "a.yaml:1:13"),
        ("datasource: {type: 5}", "bad-value", "a.yaml:1:20"),
        ("datasource: {}\ndatasink: {}\ntopic: a", "ambiguous-key", "a.yaml:3:1"),
        (SOURCE + "  consumer_confg: {a: b}", "unknown-key", "a.yaml:3:3"),
        (SOURCE + "  schema: {vale_format: x}", "unknown-key", "a.yaml:3:12"),
        (SOURCE + "  schema: {value_format: [x]}", "bad-value", "a.yaml:3:26"),
        (SOURCE + "  schema: avro", "bad-value", "a.yaml:3:11"),
        (SOURCE + "  topic: {nam: x}", "unknown-key", "a.yaml:3:11"),
        (SOURCE + "  topic: {}", "missing-key", "a.yaml:3:3"),
        (SOURCE + "  topic: [a]", "bad-value", "a.yaml:3:10"),
        (SOURCE + "  topic_config: {partitions: 0}", "bad-value", "a.yaml:3:30"),
        (SOURCE + "  topic_config: {partitions: true}", "bad-value", "a.yaml:3:30"),
        (SOURCE + "  topic_config: {cleanup_policy: burn}", "bad-value", "a.yaml:3:34"),
        (SOURCE + "  topic_config: {retention: 5}", "unknown-key", "a.yaml:3:18"),
        (SOURCE + "  consumer_config: {session_timeout_ms: soon}", "bad-value", "a.yaml:3:41"),
        (SOURCE + "  consumer_config: {session_timeout_ms: 1.5}", "bad-value", "a.yaml:3:41"),
        (SOURCE + "  consumer_config: {group_id: {a: b}}", "bad-value", "a.yaml:3:31"),
        (SOURCE + "  consumer_config: {auto_offset_reset: none}", "bad-value", "a.yaml:3:40"),
        (SOURCE + "  consumer_config: {group_id: a, group.id: b}", "duplicate-key", "a.yaml:3:34"),
        (SOURCE + "  consumer_config: 5", "bad-value", "a.yaml:3:20"),
        (SOURCE + "  format: csv\n  schema: {value_format: json}", "duplicate-key", "a.yaml:4:12"),
        (SOURCE + "  performance_profile: [x]", "bad-value", "a.yaml:3:24"),
        (SINK + "  headers: {a: [b]}", "bad-value", "a.yaml:3:16"),
        (SINK + "  headers: a", "bad-value", "a.yaml:3:12"),
        (SINK + "  metadata: a", "bad-value", "a.yaml:3:13"),
        (SINK + "  integrations: {mail: {enabled: sometimes}}", "bad-value", "a.yaml:3:34"),
        (SINK + "  integrations: {mail: {recipients: [a, {}]}}", "bad-value", "a.yaml:3:41"),
        (SINK + "  integrations: {mail: on}", "bad-value", "a.yaml:3:24"),
    ],
)
def test_bad_values_are_underlined(write: Write, text: str, code: str, place: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load_endpoint(write("a.yaml", text))
    assert (raised.value.code, str(raised.value.at)) == (code, place)


def test_a_bad_merged_value_points_into_the_file_it_came_from(write: Write) -> None:
    write("base.yaml", SOURCE + "  topic_config:\n    partitions: many\n    retention_ms: 5\n")
    with pytest.raises(ConfigError) as raised:
        load_endpoint(write("own.yaml", "extends: base.yaml\ntopic_config:\n  retention_ms: 6\n"))
    assert str(raised.value.at) == "base.yaml:4:17"
    assert "partitions: many" in str(raised.value)
    assert raised.value.exit_code == 2


def test_a_file_that_a_statement_asks_for_in_vain(write: Write) -> None:
    write("x", "")
    at = Place("job.sql", 3, 5)
    with pytest.raises(ConfigError) as raised:
        load_endpoint("none.yaml", at=at)
    assert raised.value.at == at


PROFILES = """
performance_profiles:
  balanced: {max_poll_records: 7}
  mine: {fetch_max_wait_ms: 3, trigger: 2 seconds, batch_size: 50}
delivery_profiles:
  careful: {acks: -1, retries: 9}
"""


def test_a_profile_of_ones_own(write: Write) -> None:
    path = write("a.yaml", SOURCE + "  performance_profile: mine\n" + PROFILES)
    assert settings(load_endpoint(path)) == {"trigger": "2 seconds", "consumer": {"fetch.max.wait.ms": 3}}


def test_a_built_in_profile_changed(write: Write) -> None:
    path = write("a.yaml", SOURCE + "  performance_profile: balanced\n" + PROFILES)
    consumer = settings(load_endpoint(path))["consumer"]
    assert (consumer["max.poll.records"], consumer["fetch.max.wait.ms"]) == (7, 20)


def test_profiles_of_a_sink(write: Write) -> None:
    path = write("a.yaml", SINK + "  performance_profile: mine\n  delivery_profile: careful\n" + PROFILES)
    assert settings(load_endpoint(path)) == {
        "trigger": "2 seconds",
        "batch_size": 50,
        "producer": {"acks": "all", "retries": 9},
    }


def test_a_delivery_profile_says_more_than_one_for_speed(write: Write) -> None:
    path = write("a.yaml", SINK + "performance_profile: high_throughput\ndelivery_profile: critical\n")
    producer = settings(load_endpoint(path))["producer"]
    assert (producer["linger.ms"], producer["batch.size"]) == (0, 262144)


def test_a_profile_counts_as_written_in_the_file_that_chooses_it(write: Write) -> None:
    write("base.yaml", SINK + "  producer_config: {acks: 1, linger_ms: 9}\n")
    path = write("own.yaml", "extends: base.yaml\ndelivery_profile: critical\n")
    assert settings(load_endpoint(path))["producer"] == {"acks": "all", "linger.ms": 0}
    path = write(
        "own.yaml", "extends: base.yaml\ndelivery_profile: critical\nproducer_config: {linger_ms: 4}\n"
    )
    assert settings(load_endpoint(path))["producer"] == {"acks": "all", "linger.ms": 4}


def test_a_profile_chosen_by_the_statement_wins(write: Write) -> None:
    path = write("a.yaml", SOURCE + "  consumer_config: {max_poll_records: 1}\n  trigger: 9 s\n")
    chosen = Setting("performance_profile", "high_throughput", Place("statement", 1))
    given = settings(load_endpoint(path, performance_profile=chosen))
    assert (given["consumer"]["max.poll.records"], given["trigger"]) == (2000, "10 seconds")


def test_profiles_leave_out_what_a_connector_without_kafkas_client_lacks(write: Write) -> None:
    path = write("a.yaml", "datasource: {type: files, path: x, performance_profile: balanced}\n")
    assert settings(load_endpoint(path)) == {"path": "x", "trigger": "1 second"}


def test_exactly_once_needs_all_acks(write: Write) -> None:
    path = write("a.yaml", SINK + "  delivery_profile: critical\n  producer_config: {acks: 1}\n")
    with pytest.raises(ConfigError, match="needs acks 'all'") as raised:
        load_endpoint(path)
    assert str(raised.value.at) == "a.yaml:4:21"


def test_an_unknown_profile(write: Write) -> None:
    with pytest.raises(OptionError) as raised:
        load_endpoint(write("a.yaml", SOURCE + "  performance_profile: balancd\n"))
    assert (raised.value.code, str(raised.value.at)) == ("unknown-profile", "a.yaml:3:24")
    assert raised.value.hint == "did you mean 'balanced'?"


@pytest.mark.parametrize(
    ("text", "code", "place"),
    [
        ("performance_profiles: {a: {fetch_max_wait_ms: -1}}", "bad-value", "a.yaml:3:47"),
        ("performance_profiles: {a: {fetch_mx_wait_ms: 1}}", "unknown-key", "a.yaml:3:28"),
        ("performance_profiles: {a: {trigger: now}}", "bad-value", "a.yaml:3:37"),
        (f"performance_profiles: {{a: {{trigger: {'9' * 200} days}}}}", "bad-value", "a.yaml:3:37"),
        ("performance_profiles: {a: 5}", "bad-value", "a.yaml:3:27"),
        ("performance_profiles: [a]", "bad-value", "a.yaml:3:23"),
        ("performance_profiles:", "bad-value", "a.yaml:3:22"),
        ("delivery_profiles: {critical: {acks: 1}}", "bad-value", "a.yaml:3:31"),
        ("delivery_profiles: {a: {acks: some}}", "bad-value", "a.yaml:3:31"),
        ("delivery_profiles: {a: {delivery_guarantee: maybe}}", "bad-value", "a.yaml:3:45"),
    ],
)
def test_a_bad_profile(write: Write, text: str, code: str, place: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load_endpoint(write("a.yaml", SOURCE + text))
    assert (raised.value.code, str(raised.value.at)) == (code, place)
