"""Streams in a folder, with no server: `file:///folder` is a cluster, `file:///folder/news` its stream.

A stream is a folder, each of its shards an append-only log of segments, which are made of blocks (`block`).

- One process writes a stream; a lock holds it, and a number in each block tells one writer from the next. Any
  number of processes read meanwhile. What one writes that has lost the right to is refused by readers, and
  cut by the next writer.
- At least once: a receipt is settled when the block is written. By default that survives the death of the
  process; with `?fsync=always`, that of the machine.
- Exactly once: a message whose `id` is among the last `dedup_window` messages of its shard is not stored
  again, also by later writers.
- After a crash, at whatever byte, the whole blocks are there; half a block at the end is never read, and cut
  by the next writer. Damage elsewhere is an error that names the file and the byte.
- What retention no longer keeps is removed while a producer is open, by whole segments.
- Groups keep their positions in the stream's folder, and share its shards by locks, which the death of a
  process frees.
"""
