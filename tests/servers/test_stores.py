"""The stores are real enough: they keep, list and refuse as those in production do."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from uuid import uuid4

import pytest
from azure.core.exceptions import HttpResponseError
from botocore.exceptions import ClientError

from tests.servers.azure import Azurite
from tests.servers.gcs import Gcs
from tests.servers.s3 import S3

pytestmark = pytest.mark.server

Store = S3 | Gcs | Azurite


@pytest.fixture(params=["s3", "strict_s3", "gcs", "azurite"])
def store(request: pytest.FixtureRequest) -> Store:
    server: Store = request.getfixturevalue(request.param)
    return server


@pytest.fixture
def bucket(store: Store) -> str:
    """A bucket of the store, or what Azure has for it."""
    name = f"b-{uuid4()}"
    if isinstance(store, Azurite):
        store.create_container(name)
    else:
        store.create_bucket(name)
    return name


def test_what_is_put_is_kept_and_listed(store: Store, bucket: str) -> None:
    data = bytes(range(256)) * 5000
    keys = ["a/b=1/ü %+.bin", "a/b=2/empty", "z"]
    for key in reversed(keys):
        store.put(bucket, key, b"" if key.endswith("empty") else data)
    store.put(bucket, "z", b"new")
    assert store.keys(bucket) == keys
    assert store.keys(bucket, "a/b=1") == keys[:1]
    assert store.keys(bucket, "none") == []
    assert [store.get(bucket, key) for key in keys] == [data, b"", b"new"]


@pytest.fixture
def s3_bucket(s3: S3) -> str:
    name = f"b-{uuid4()}"
    s3.create_bucket(name)
    return name


def test_keys_of_more_than_one_page_are_listed(s3: S3, s3_bucket: str) -> None:
    keys = [f"k-{n:04}" for n in range(1001)]
    for key in keys:
        s3.put(s3_bucket, key, b"")
    assert s3.keys(s3_bucket) == keys


def test_unfinished_uploads_are_told(s3: S3, s3_bucket: str) -> None:
    client = s3.client()
    for key in ("completed", "aborted", "open"):
        place = {"Bucket": s3_bucket, "Key": key}
        place["UploadId"] = client.create_multipart_upload(**place)["UploadId"]
        tag = client.upload_part(**place, PartNumber=1, Body=b"1")["ETag"]
        if key == "completed":
            parts = {"Parts": [{"PartNumber": 1, "ETag": tag}]}
            client.complete_multipart_upload(**place, MultipartUpload=parts)
        elif key == "aborted":
            client.abort_multipart_upload(**place)
    assert s3.uploads(s3_bucket) == ["open"]
    assert s3.keys(s3_bucket) == ["completed"]


def test_a_bucket_is_deleted_with_all_in_it(s3: S3, s3_bucket: str) -> None:
    s3.put(s3_bucket, "k", b"1")
    s3.client().create_multipart_upload(Bucket=s3_bucket, Key="open")
    s3.delete_bucket(s3_bucket)
    with pytest.raises(ClientError, match="NoSuchBucket"):
        s3.keys(s3_bucket)


@pytest.mark.parametrize(
    ("wrong", "code"),
    [({"access_key": "wrong"}, "InvalidAccessKeyId"), ({"secret_key": "wrong"}, "SignatureDoesNotMatch")],
)
def test_a_wrong_key_is_refused(strict_s3: S3, wrong: dict[str, str], code: str) -> None:
    name = f"b-{uuid4()}"
    strict_s3.create_bucket(name)
    client = strict_s3.client(**wrong)
    with pytest.raises(ClientError, match=code):
        client.list_objects_v2(Bucket=name)
    with pytest.raises(ClientError, match=code):
        client.put_object(Bucket=name, Key="k", Body=b"1")
    assert strict_s3.keys(name) == []


def test_azure_refuses_a_wrong_key(azurite: Azurite) -> None:
    with pytest.raises(HttpResponseError, match="AuthorizationFailure"):
        azurite.client(b64encode(b"wrong").decode()).get_service_properties()


def test_a_strict_s3_that_was_killed_is_strict_again(tmp_path: Path) -> None:
    with S3(tmp_path, strict=True) as server:
        old = server.access_key
        with server.down():
            pass
        server.create_bucket("back")
        with pytest.raises(ClientError, match="InvalidAccessKeyId"):
            server.client(access_key=old).list_buckets()
