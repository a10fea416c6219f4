"""Redis streams, by redis-py.

    redis://[user:password@]host:6379[/stream[,stream]][?db=0]

Sends at least once, or exactly once by ids that are kept beside the stream within a window. Reads again from
any id. A group shares messages one by one, whatever their shard, and what a member leaves unprocessed goes to
the others: at least once. Exactly once with a position store, which the members of a group cannot share.

A stream is one key. Created with more shards, shard n > 0 is the key `name:n`; the hash `name:penstock` keeps
how many there are, and how long messages are kept. Streams of other writers are read as they are.
"""

from __future__ import annotations

from penstock.streams.redis.streamer import Redis

__all__ = ["Redis"]
