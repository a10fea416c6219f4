"""The job as Penstock statements: `statements` for the command line, or jobs from stdin in one session."""

from __future__ import annotations

import sys

import penstock
from benchmarks.data import COLUMNS


def statements(kind: str, source: str, target: str) -> str:
    return (
        f"CREATE OR REPLACE SOURCE events ({COLUMNS[kind]})"
        f" WITH (connector = 'files', path = '{source}', format = '{kind}');\n"
        "SELECT id, user_id, event, amount, country FROM events\n"
        "WHERE amount > 250 AND event IN ('purchase', 'refund')\n"
        f"INTO '{target}/*.parquet' WITH (mode = 'overwrite');\n"
    )


def main() -> None:
    with penstock.Session() as session:
        session.spark()
        print("ready", flush=True)
        for line in sys.stdin:
            session.run(statements(*line.split()), name="bench")
            print("done", flush=True)


if __name__ == "__main__":
    main()
