"""Iceberg: `options` is what it takes, `connector` reads and writes tables."""
