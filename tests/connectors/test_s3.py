"""How S3 is entered, and what happens when it is not let in."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from penstock.api import Ran, Session
from penstock.connectors.s3 import S3 as Connector
from penstock.connectors.s3 import Source
from penstock.errors import PenstockError
from tests.servers.s3 import S3
from tests.waiting import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def session(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    monkeypatch.chdir(tmp_path)
    put("in/a.jsonl", 1, 2, 3)
    with Session(spark=spark) as session:
        yield session


def put(name: str, *ids: int) -> None:
    Path(name).parent.mkdir(exist_ok=True)
    aside = Path(f".{Path(name).name}")
    aside.write_text("".join(json.dumps({"id": n}) + "\n" for n in ids))
    aside.rename(name)


def new_bucket(server: S3) -> str:
    name = f"lake-{uuid4().hex[:12]}"
    server.create_bucket(name)
    return name


def words(server: S3, **changes: Any) -> str:
    options = {"endpoint": server.endpoint, "access_key": server.access_key, "secret_key": server.secret_key}
    return ", ".join(f"{key} = '{value}'" for key, value in (options | changes).items())


def ids(server: S3, bucket: str, prefix: str = "out/") -> list[int]:
    keys = [key for key in server.keys(bucket, prefix) if key.endswith(".parquet") and "/__" not in key]
    found = (pq.read_table(io.BytesIO(server.get(bucket, key))) for key in keys)
    return sorted(n for table in found for n in table["id"].to_pylist())


@contextmanager
def properties(spark: Any, told: dict[str, str]) -> Iterator[None]:
    """What the JVM's environment would say."""
    system = spark._jvm.java.lang.System
    for name, value in told.items():
        system.setProperty(name, value)
    try:
        yield
    finally:
        for name in told:
            system.clearProperty(name)


def settings(**options: Any) -> dict[str, str]:
    """Hadoop's settings of a bucket `b`."""
    access = Connector().access(Source(path="s3://b/x", **options))
    assert access is not None
    assert access.root == "s3://b"
    return {k.removeprefix("fs.s3a.bucket.b."): v for k, v in access.settings.items()}


def test_credentials_of_the_options_or_of_the_machine() -> None:
    found = settings(access_key="id", secret_key="key", region="eu-west-1")
    assert (found["access.key"], found["secret.key"], found["endpoint.region"]) == ("id", "key", "eu-west-1")
    assert found["aws.credentials.provider"].endswith("SimpleAWSCredentialsProvider")
    passing = settings(access_key="id", secret_key="key", session_token="token")
    assert passing["aws.credentials.provider"].endswith("TemporaryAWSCredentialsProvider")
    assert settings(profile="dev")["auth.profile.name"] == "dev"
    assert settings(anonymous=True)["aws.credentials.provider"].endswith("AnonymousAWSCredentialsProvider")
    assert (
        "aws.credentials.provider" not in settings()
    )  # Hadoop looks in the environment, then at the machine
    assert "endpoint.region" not in settings()


def test_a_role_is_taken_on_with_what_there_is() -> None:
    found = settings(role_arn="arn:aws:iam::1:role/x", profile="dev")
    assert found["aws.credentials.provider"].endswith("AssumedRoleCredentialProvider")
    assert found["assumed.role.credentials.provider"].endswith("ProfileAWSCredentialsProvider")
    assert "assumed.role.credentials.provider" not in settings(role_arn="arn:aws:iam::1:role/x")


def test_another_store_has_its_buckets_in_the_path() -> None:
    assert settings(endpoint="http://127.0.0.1:9000")["path.style.access"] == "true"
    assert settings(endpoint="https://x.r2.dev", path_style=False)["path.style.access"] == "false"
    assert settings()["path.style.access"] == "false"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"access_key": "id"}, "belong together"),
        ({"session_token": "t"}, "needs access_key"),
        ({"access_key": "id", "secret_key": "key", "profile": "dev"}, "exclude each other"),
        ({"role_arn": "arn:aws:iam::1:role/x", "anonymous": True}, "exclude each other"),
        ({"path": "data/x"}, "expected a path in a bucket"),
        ({"path": ""}, "expected a path in a bucket"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        Source(**{"path": "s3://b/x", **options})


def test_a_bucket_and_a_key_are_a_path() -> None:
    assert Source(bucket="b", path="orders/").path == "s3://b/orders/"
    assert Source(bucket="b").path == "s3://b/"


@pytest.mark.spark
@pytest.mark.server
def test_wrong_credentials_then_right_ones(session: Session, strict_s3: S3) -> None:
    bucket = new_bucket(strict_s3)
    into = f"INTO 's3://{bucket}/out/*.parquet' WITH ({{}})"
    wrong = words(strict_s3, secret_key="not-the-right-one")
    for text in (
        f"SELECT id FROM 'in/*.jsonl' {into.format(wrong)}",
        f"SELECT id FROM 's3://{bucket}/in/*.parquet' WITH ({wrong}) INTO 'back/*.parquet'",
    ):
        with pytest.raises(PenstockError) as caught:
            session.run(text)
        assert caught.value.code == "access-denied", caught.value
        assert caught.value.at is not None
        assert "not-the-right-one" not in str(caught.value)
    session.run(f"SELECT id FROM 'in/*.jsonl' {into.format(words(strict_s3))}")
    assert ids(strict_s3, bucket) == [1, 2, 3]
    secrets = (strict_s3.secret_key, "not-the-right-one")
    kept = [path for path in session.state.rglob("*") if path.is_file()]
    assert kept
    assert not [path for path in kept for secret in secrets if secret.encode() in path.read_bytes()]


@pytest.mark.spark
@pytest.mark.server
def test_one_bucket_in_two_ways_is_refused(session: Session, s3: S3) -> None:
    bucket = new_bucket(s3)
    with pytest.raises(PenstockError) as caught:
        session.run(
            f"SELECT id FROM 's3://{bucket}/in/*.parquet' WITH ({words(s3)})"
            f" INTO 's3://{bucket}/out/*.parquet' WITH ({words(s3, access_key='other')})"
        )
    assert caught.value.code == "two-accesses"


@pytest.mark.spark
@pytest.mark.server
def test_a_bucket_that_vanishes_stops_the_stream_and_loses_nothing(session: Session, s3: S3) -> None:
    bucket = new_bucket(s3)
    text = (
        "SELECT id FROM 'in/*.jsonl' WITH (watch = true)"
        f" INTO 's3://{bucket}/out/*.parquet' WITH ({words(s3)}, retries = 1, retry_backoff = '100 ms')"
    )
    pipeline = session.start(text, name="p")
    until(lambda: pipeline.progress.batches, "the first batch is done")
    assert ids(s3, bucket) == [1, 2, 3]
    s3.delete_bucket(bucket)
    put("in/b.jsonl", 4)
    with pytest.raises(PenstockError) as caught:
        pipeline.wait(120)
    assert caught.value.code == "missing-bucket", caught.value
    s3.create_bucket(bucket)
    _, ran = session.run(text, name="p", until_caught_up=True)
    assert isinstance(ran, Ran)
    assert ids(s3, bucket) == [4]


@pytest.mark.spark
@pytest.mark.server
def test_a_watched_bucket_that_vanishes_stops_the_stream_and_loses_nothing(session: Session, s3: S3) -> None:
    bucket = new_bucket(s3)
    text = (
        f"SELECT id FROM 's3://{bucket}/in/*.jsonl' WITH ({words(s3)}, watch = true)"
        " INTO 'out/*.parquet' WITH (retries = 1, retry_backoff = '100 ms')"
    )
    s3.put(bucket, "in/a.jsonl", b'{"id": 1}')
    pipeline = session.start(text, name="p")
    until(lambda: pipeline.progress.batches, "the first batch is done")
    s3.delete_bucket(bucket)
    with pytest.raises(PenstockError) as caught:
        pipeline.wait(120)
    assert caught.value.code == "missing-bucket", caught.value
    s3.create_bucket(bucket)
    s3.put(bucket, "in/b.jsonl", b'{"id": 2}')
    session.run(text, name="p", until_caught_up=True)
    assert sorted(pq.read_table("out")["id"].to_pylist()) == [1, 2]


@pytest.mark.spark
@pytest.mark.server
def test_only_the_first_batch_looks_into_all_folders(session: Session, s3: S3) -> None:
    """Else a stream into many folders would cost more with each."""
    bucket = new_bucket(s3)
    s3.put(bucket, "out/day=2020-01-01/old.json", b"{}")
    put("in/b.jsonl", 4)
    put("in/c.jsonl", 5)
    text = (
        "SELECT id, timestamp'2024-03-09 12:00:00' AS at FROM 'in/*.jsonl'"
        " WITH (watch = true, files_per_batch = 1)"
        f" INTO 's3://{bucket}/out/day={{YYYY-MM-DD}}/*.json' WITH ({words(s3)}, timestamp_column = 'at')"
    )

    def looks() -> int:
        folder = f"GET /{bucket}?list-type=2&delimiter=/&max-keys=5000&prefix=out/day%3D2020-01-01/"
        return s3.log.read_text().count(folder)

    (ran,) = session.run(text, name="p", until_caught_up=True)[1:]
    assert isinstance(ran, Ran)
    assert (ran.batches, looks()) == (3, 1)
    put("in/d.jsonl", 6)
    session.run(text, name="p", until_caught_up=True)
    assert looks() == 2


@pytest.mark.spark
@pytest.mark.server
def test_a_damaged_file_among_good_ones_is_kept_by_its_name(session: Session, s3: S3) -> None:
    bucket, file = new_bucket(s3), io.BytesIO()
    pq.write_table(pa.table({"id": [1, 2]}), file)
    s3.put(bucket, "in/good.parquet", file.getvalue())
    s3.put(bucket, "in/bad.parquet", file.getvalue()[:50])
    session.run(
        f"SELECT id FROM 's3://{bucket}/in/*.parquet' WITH ({words(s3)}, on_error = 'dead_letter')"
        f" INTO 's3://{bucket}/out/*.parquet' WITH ({words(s3)})",
        name="p",
    )
    assert ids(s3, bucket) == [1, 2]
    (letter,) = session.dead_letters("p").letters()
    assert f"s3://{bucket}/in/bad.parquet" in json.dumps(letter, default=str)


@pytest.mark.spark
@pytest.mark.server
def test_a_role_that_is_taken_on(session: Session, spark: Any, strict_s3: S3) -> None:
    bucket, (key, secret) = new_bucket(strict_s3), strict_s3.assumer
    own = words(strict_s3, access_key=key, secret_key=secret)
    with pytest.raises(PenstockError) as caught:
        session.run(f"SELECT id FROM 'in/*.jsonl' INTO 's3://{bucket}/out/*.parquet' WITH ({own})")
    assert caught.value.code == "access-denied", caught.value
    role = f"{own}, role_arn = '{strict_s3.role}'"
    with properties(spark, {"aws.region": strict_s3.region, "aws.endpointUrlSts": strict_s3.endpoint}):
        session.run(f"SELECT id FROM 'in/*.jsonl' INTO 's3://{bucket}/out/*.parquet' WITH ({role})")
    assert ids(strict_s3, bucket) == [1, 2, 3]


@pytest.mark.spark
@pytest.mark.server
def test_credentials_of_the_container(session: Session, spark: Any, strict_s3: S3) -> None:
    """The SDK of the JVM asks for them at an address of this machine."""
    bucket = new_bucket(strict_s3)
    asked: list[str] = []
    key, secret = strict_s3.assumer
    sts = strict_s3.client("sts", access_key=key, secret_key=secret)
    made = sts.assume_role(RoleArn=strict_s3.role, RoleSessionName="container")["Credentials"]
    told = {name: made[name] for name in ("AccessKeyId", "SecretAccessKey")} | {"Token": made["SessionToken"]}

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            body = json.dumps(told | {"Expiration": "2999-01-01T00:00:00Z"}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/credentials"
        with properties(spark, {"aws.containerCredentialsFullUri": address}):
            session.run(
                f"SELECT id FROM 'in/*.jsonl' INTO 's3://{bucket}/out/*.parquet'"
                f" WITH (endpoint = '{strict_s3.endpoint}')"
            )
        server.shutdown()
    assert set(asked) == {"/credentials"}
    assert ids(strict_s3, bucket) == [1, 2, 3]


@pytest.mark.spark
@pytest.mark.server
def test_credentials_of_the_environment_and_of_a_profile(strict_s3: S3, tmp_path: Path) -> None:
    bucket = new_bucket(strict_s3)
    (tmp_path / "credentials").write_text(
        f"[dev]\naws_access_key_id = {strict_s3.access_key}\naws_secret_access_key = {strict_s3.secret_key}\n"
    )
    (tmp_path / "rows.jsonl").write_text('{"id": 7}\n')
    (tmp_path / "penstock.yaml").write_text(
        "data_sources:\n"
        f"  lake: {{type: s3, bucket: {bucket}, prefix: yaml/, format: parquet,"
        f" endpoint: '{strict_s3.endpoint}'}}\n"
    )
    profiled = f"endpoint = '{strict_s3.endpoint}', profile = 'dev'"
    text = (
        "INSERT INTO lake SELECT id FROM 'rows.jsonl';"
        f"SELECT id FROM 's3://{bucket}/yaml/*.parquet' WITH ({profiled})"
        f" INTO 's3://{bucket}/out/*.parquet' WITH ({profiled});"
    )
    variables = {
        "AWS_ACCESS_KEY_ID": strict_s3.access_key,
        "AWS_SECRET_ACCESS_KEY": strict_s3.secret_key,
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "credentials"),
    }
    done = subprocess.run(
        [sys.executable, "-m", "penstock", "run", "-e", text],
        cwd=tmp_path, env={**os.environ, **variables}, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert ids(strict_s3, bucket) == [7]
    assert strict_s3.secret_key not in done.stdout + done.stderr
