"""A program that asks brokers for what they know of groups.

Its input are lines of JSON: settings of a client, then lists of groups. Each list is answered by a line: of
each group its members with their partitions, and the offsets that it has committed.
"""

from __future__ import annotations

import json
import sys
from concurrent.futures import Future
from typing import Any

PATIENCE = 10.0


def main() -> None:
    from confluent_kafka.admin import AdminClient

    admin = AdminClient(json.loads(sys.stdin.readline()))
    for line in sys.stdin:
        print(json.dumps(_told(admin, json.loads(line))), flush=True)


def _told(admin: Any, groups: list[str]) -> dict[str, Any]:
    from confluent_kafka import ConsumerGroupTopicPartitions

    ask = admin.list_consumer_group_offsets
    # All are asked before the first answer is waited for.
    committed = {
        group: ask([ConsumerGroupTopicPartitions(group)], request_timeout=PATIENCE)[group] for group in groups
    }
    members = admin.describe_consumer_groups(groups, request_timeout=PATIENCE)
    return {group: (_members(members[group]), _committed(committed[group])) for group in groups}


def _members(answer: Future[Any]) -> list[Any]:
    group = _known(answer)
    return [
        (member.member_id, [(part.topic, part.partition) for part in member.assignment.topic_partitions])
        for member in (group.members if group else [])
        if member.assignment
    ]


def _committed(answer: Future[Any]) -> list[Any]:
    group = _known(answer)
    return [(part.topic, part.partition, part.offset) for part in (group and group.topic_partitions) or []]


def _known(answer: Future[Any]) -> Any:
    """None for a group that is gone meanwhile, or of another kind."""
    from confluent_kafka import KafkaException

    try:
        return answer.result()
    except KafkaException:
        return None


if __name__ == "__main__":
    main()
