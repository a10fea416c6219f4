"""The jobs on tables as Penstock statements, from stdin, in one session."""

from __future__ import annotations

from pathlib import Path

from benchmarks.data import FOLDER, STREAM_COLUMNS, STREAM_FILTER, STREAM_SELECTED
from benchmarks.jobs.serve import serve

PROJECT = FOLDER / "lake" / "penstock.yaml"


def statements(job: str, source: str, target: str) -> str:
    if job.startswith("upsert"):
        order = "" if job == "upsert_once" else ", order_by = 'version'"
        return f"SELECT * FROM '{source}/*.parquet' INTO 'delta://{target}' WITH (merge_on = 'id'{order})"
    broker, _, rest = source.partition("/")
    topic, _, rows = rest.partition("/")
    into = f"'delta://{target}' WITH (merge_on = 'user_id', order_by = 'id')"
    if job == "kafka_to_iceberg":
        into = f"'iceberg://lake.db.{Path(target).name}'"
    return (
        f"CREATE OR REPLACE SOURCE events ({STREAM_COLUMNS})"
        f" WITH (connector = 'kafka', bootstrap_servers = '{broker}', topic = '{topic}',"
        f" format = 'json', max_rows_per_batch = {rows});\n"
        f"SELECT {STREAM_SELECTED} FROM events\nWHERE {STREAM_FILTER}\nINTO {into};\n"
    )


def main() -> None:
    import penstock

    with penstock.Session(PROJECT) as session:

        def run(job: str, source: str, target: str, place: str) -> None:
            session.run(statements(job, source, target), name=Path(place).name, until_caught_up=True)

        serve(run)


if __name__ == "__main__":
    main()
