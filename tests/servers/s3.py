"""moto as S3, looked into with boto3. In memory: a restart forgets all."""

from __future__ import annotations

import json
import sys
import urllib.request
from pathlib import Path
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError

from tests.servers.process import Process, free_ports, listens

REGION = "us-east-1"
USER = "penstock"
POLICY = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}],
}


ROLE = "lake"
MAY_ASSUME = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": "sts:AssumeRole", "Resource": "*"}],
}


class S3(Process):
    """An S3 that lets in everybody; a `strict` one lets in a single user, with new keys at each start.

    Another user of a strict one may only take on a role, which is let in.
    """

    def __init__(self, folder: Path, *, strict: bool = False) -> None:
        (self._port,) = free_ports(1)
        self._strict = strict
        self._keys = ("any-key", "any-secret")
        self.role = ""
        self.assumer = self._keys
        """The keys of who may take on the role."""
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self._port)]
        super().__init__("S3", command, folder / "s3.log", self._answers)

    def start(self) -> None:
        super().start()
        try:
            if self._strict:
                self._close()
            self._client = self.client()
        except BaseException:
            self.kill()
            raise

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def access_key(self) -> str:
        return self._keys[0]

    @property
    def secret_key(self) -> str:
        return self._keys[1]

    @property
    def project(self) -> str:
        """A penstock.yaml with which statements need only name a bucket."""
        access = {"endpoint": self.endpoint, "access_key": self.access_key, "secret_key": self.secret_key}
        return json.dumps({"defaults": {"s3": access}})

    @property
    def storage_options(self) -> dict[str, str]:
        """How delta-rs opens its buckets."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_REGION": REGION,
            "AWS_ALLOW_HTTP": "true",
        }

    @property
    def region(self) -> str:
        return REGION

    def client(
        self, service: str = "s3", *, access_key: str | None = None, secret_key: str | None = None
    ) -> Any:
        """A client of boto3, with the right keys unless told others."""
        return boto3.client(
            service,
            endpoint_url=self.endpoint,
            region_name=REGION,
            aws_access_key_id=access_key or self.access_key,
            aws_secret_access_key=secret_key or self.secret_key,
        )

    def create_bucket(self, name: str) -> None:
        self._client.create_bucket(Bucket=name)

    def delete_bucket(self, name: str) -> None:
        """Removes a bucket with all that is in it."""
        for key in self.keys(name):
            self._client.delete_object(Bucket=name, Key=key)
        for upload in self._listed("list_multipart_uploads", "Uploads", Bucket=name):
            self._client.abort_multipart_upload(Bucket=name, Key=upload["Key"], UploadId=upload["UploadId"])
        self._client.delete_bucket(Bucket=name)

    def put(self, bucket: str, key: str, data: bytes) -> None:
        self._client.put_object(Bucket=bucket, Key=key, Body=data)

    def get(self, bucket: str, key: str) -> bytes:
        with self._client.get_object(Bucket=bucket, Key=key)["Body"] as body:
            return bytes(body.read())

    def keys(self, bucket: str, prefix: str = "") -> list[str]:
        """All keys that begin so, in order."""
        found = self._listed("list_objects_v2", "Contents", Bucket=bucket, Prefix=prefix)
        return [entry["Key"] for entry in found]

    def uploads(self, bucket: str) -> list[str]:
        """The keys of uploads in parts that were begun, and neither completed nor aborted."""
        return [upload["Key"] for upload in self._listed("list_multipart_uploads", "Uploads", Bucket=bucket)]

    def _listed(self, call: str, name: str, **asked: str) -> list[Any]:
        """What all pages of an answer have under a name."""
        pages = self._client.get_paginator(call).paginate(**asked)
        return [entry for page in pages for entry in page.get(name, ())]

    def _close(self) -> None:
        """From now on, only the keys of one user are let in."""
        iam = self.client("iam")
        made = iam.create_role(RoleName=ROLE, AssumeRolePolicyDocument=json.dumps(MAY_ASSUME))
        self.role = made["Role"]["Arn"]
        iam.put_role_policy(RoleName=ROLE, PolicyName="s3", PolicyDocument=json.dumps(POLICY))
        self.assumer = _user(iam, f"{USER}-{ROLE}", MAY_ASSUME)
        self._keys = _user(iam, USER, POLICY)
        # How many more calls are let in without a look at their keys.
        request = urllib.request.Request(
            f"{self.endpoint}/moto-api/reset-auth", b"0", {"Content-Type": "text/plain"}
        )
        urllib.request.urlopen(request, timeout=30).close()

    def _answers(self) -> bool:
        if not listens(self._port):
            return False
        try:
            self.client().list_buckets()
        except BotoCoreError:
            return False
        return True


def _user(iam: Any, name: str, policy: dict[str, Any]) -> tuple[str, str]:
    """The keys of a new user."""
    iam.create_user(UserName=name)
    iam.put_user_policy(UserName=name, PolicyName="may", PolicyDocument=json.dumps(policy))
    made = iam.create_access_key(UserName=name)["AccessKey"]
    return made["AccessKeyId"], made["SecretAccessKey"]
