"""The job in DuckDB, shown beside the others: `by_duckdb.py KIND INPUT OUTPUT`, or jobs from stdin."""

from __future__ import annotations

from pathlib import Path

import duckdb

from benchmarks.data import COLUMNS
from benchmarks.jobs.serve import serve


def run(kind: str, source: str, target: str) -> None:
    Path(target).mkdir(parents=True, exist_ok=True)
    names = dict(column.split() for column in COLUMNS[kind].split(", "))
    types = "{" + ", ".join(f"'{n}': '{t.replace('STRING', 'VARCHAR')}'" for n, t in names.items()) + "}"
    how = "format = 'newline_delimited'" if kind == "jsonl" else "header = true"
    reader = "read_json" if kind == "jsonl" else "read_csv"
    duckdb.sql(
        "COPY (SELECT id, user_id, event, amount, country"
        f" FROM {reader}('{source}', columns = {types}, {how})"
        f" WHERE amount > 250 AND event IN ('purchase', 'refund')) TO '{target}/all.parquet' (FORMAT parquet)"
    )


serve(run)
