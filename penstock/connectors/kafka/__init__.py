"""Kafka: `connector` is what the engine sees.

A row in: `offsets` says from where, Spark reads, `records` makes columns of a message's parts. A row out:
`topics` makes the target ready, `records` makes messages, and Spark's sink sends them; for exactly once,
`writer` does, with `chunks` and `transactions`. All tell the brokers by `connection` and `settings` who they
are; `penstock.streams.kafka` has what needs no Spark for that.
"""
