"""Hudi: `connector` is what the engine sees.

A row in: `table` tells files and columns, `reading` reads them, both by hudi-rs. A row out: `changes` finds
where the row of its key stands, `writing` stages the batch, and `Writing.java`, which `java` brings into the
JVM, writes it. `columns` says what a table can keep, `instants` which moment is meant, `locking` who writes,
`access` how hudi-rs reaches a store.
"""
