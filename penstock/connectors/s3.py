"""Files in Amazon S3 and in stores that speak its protocol, such as MinIO, Ceph and R2. Exactly once: the
files of a batch appear when all of them are uploaded, without a copy, and one that runs again replaces its
own files.

Without credentials in the options they come from the environment (`AWS_ACCESS_KEY_ID` and the like), or from
the role of the machine or container.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic import AliasChoices, Field, SecretStr, model_validator

from penstock.connectors import files
from penstock.connectors.object_stores import COMMITTERS_JAR, IN_PLACE, InStore, ObjectStore, told
from penstock.connectors.staging import Committer
from penstock.connectors.storage import Hadoop, Storage, join, root_of
from penstock.options import Options

_SDK = "2.29.52"
_SDK_PARTS = (
    "annotations", "apache-client", "arns", "auth", "aws-core", "aws-query-protocol", "aws-xml-protocol",
    "checksums", "checksums-spi", "crt-core", "endpoints-spi", "http-auth", "http-auth-aws",
    "http-auth-aws-eventstream", "http-auth-spi", "http-client-spi", "identity-spi", "json-utils",
    "metrics-spi", "netty-nio-client", "profiles", "protocol-core", "regions", "retries", "retries-spi", "s3",
    "s3-transfer-manager", "sdk-core", "sts", "third-party-jackson-core", "utils",
)  # fmt: skip
_PROVIDERS = "org.apache.hadoop.fs.s3a."
_COMMITTERS = "org.apache.hadoop.fs.s3a.commit.S3ACommitterFactory"


class Access(Options):
    """How a bucket is reached."""

    endpoint: str | None = Field(
        None,
        description="The address of a store other than Amazon's, such as http://localhost:9000.",
        validation_alias=AliasChoices("endpoint", "s3.endpoint", "endpoint_url", "aws.endpoint"),
    )
    region: str | None = Field(
        None,
        description="The bucket's region; found by itself at Amazon's.",
        validation_alias=AliasChoices("region", "s3.region", "aws.region", "aws_region"),
    )
    access_key: SecretStr | None = Field(
        None,
        description="The id of an access key.",
        validation_alias=AliasChoices(
            "access_key", "access_key_id", "aws_access_key_id", "s3.access-key", "s3.access-key-id",
            "s3.credentials.access",
        ),
    )  # fmt: skip
    secret_key: SecretStr | None = Field(
        None,
        description="Its secret.",
        validation_alias=AliasChoices(
            "secret_key", "secret_access_key", "aws_secret_access_key", "s3.secret-key",
            "s3.secret-access-key", "s3.credentials.secret",
        ),
    )  # fmt: skip
    session_token: SecretStr | None = Field(
        None,
        description="The token of credentials that pass.",
        validation_alias=AliasChoices("session_token", "aws_session_token", "s3.session-token"),
    )
    profile: str | None = Field(
        None,
        description="A profile of ~/.aws/credentials.",
        validation_alias=AliasChoices("profile", "aws_profile"),
    )
    role_arn: str | None = Field(
        None,
        description="A role to take on, with the credentials that are given or found. The environment tells"
        " where: AWS_REGION, and AWS_ENDPOINT_URL_STS for a store other than Amazon's.",
        validation_alias=AliasChoices("role_arn", "aws_role_arn", "s3.role-arn"),
    )
    anonymous: bool = Field(False, description="Whether to come without credentials, as to public data.")
    path_style: bool | None = Field(
        None,
        description="Whether the bucket stands in the path and not in the host's name; so with `endpoint`"
        " unless set.",
        validation_alias=AliasChoices("path_style", "path_style_access", "s3.path-style-access"),
    )

    @model_validator(mode="after")
    def _one_way_into_s3(self) -> Access:
        if (self.access_key is None) != (self.secret_key is None):
            raise ValueError("access_key and secret_key belong together")
        if self.session_token is not None and self.access_key is None:
            raise ValueError("session_token needs access_key and secret_key")
        if (self.access_key is not None) + (self.profile is not None) + self.anonymous > 1:
            raise ValueError("access_key, profile and anonymous exclude each other")
        if self.role_arn is not None and self.anonymous:
            raise ValueError("a role is taken on with credentials: role_arn and anonymous exclude each other")
        return self

    def settings_for(self, bucket: str) -> dict[str, str]:
        """What Hadoop is to know of a bucket."""
        style = self.endpoint is not None if self.path_style is None else self.path_style
        own: dict[str, str | None] = {
            "endpoint": self.endpoint,
            "endpoint.region": self.region or ("us-east-1" if self.endpoint else None),
            "path.style.access": str(style).lower(),
            "aws.credentials.provider": self._provider(),
            **(self._role() if self.role_arn is not None else {}),
            "access.key": told(self.access_key),
            "secret.key": told(self.secret_key),
            "session.token": told(self.session_token),
            "auth.profile.name": self.profile,
            # Failures are tried again as the sink or the stream says; Hadoop alone would go on for minutes.
            "attempts.maximum": "2",
            "retry.limit": "3",
            "connection.establish.timeout": "10s",
            # Local files go the way of all others, not by a second client, which not all stores understand.
            "optimized.copy.from.local.enabled": "false",
        }
        named = {f"fs.s3a.bucket.{bucket}.{key}": value for key, value in own.items() if value is not None}
        return {"fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem", **named}

    def _role(self) -> dict[str, str | None]:
        # Where roles are handed out is for the environment to say: S3A can be told only with classes of a jar
        # that is a hundred times as large.
        return {
            "aws.credentials.provider": f"{_PROVIDERS}auth.AssumedRoleCredentialProvider",
            "assumed.role.arn": self.role_arn,
            "assumed.role.credentials.provider": self._provider(),
        }

    def _provider(self) -> str | None:
        if self.session_token is not None:
            return f"{_PROVIDERS}TemporaryAWSCredentialsProvider"
        if self.access_key is not None:
            return f"{_PROVIDERS}SimpleAWSCredentialsProvider"
        if self.profile is not None:
            return f"{_PROVIDERS}auth.ProfileAWSCredentialsProvider"
        return f"{_PROVIDERS}AnonymousAWSCredentialsProvider" if self.anonymous else None


class Location(Access, InStore):
    begins = r"s3a?://[^/]+"
    expected = "a path in a bucket: s3://bucket/key, or `bucket` and `path`"

    bucket: str | None = Field(None, description="The bucket, for a `path` that is only a key in it.")
    path: str = Field("", description="s3://bucket/key, or a key with `bucket`; as for files.",
                      validation_alias=AliasChoices("path", "prefix", "key"))  # fmt: skip

    @classmethod
    def named_root(cls, values: Mapping[str, Any]) -> str | None:
        return f"s3://{values['bucket']}" if values.get("bucket") else None

    def hadoop(self) -> dict[str, str]:
        return self.settings_for(root_of(self.path).partition("://")[2])


class Source(Location, files.Source):
    pass


class Sink(Location, files.Sink):
    pass


class ByUpload(Committer):
    """Files are uploaded to their places, and the uploads completed at the end: S3A's `magic` committer."""

    def settings(self, label: str) -> Mapping[str, str]:
        return {
            **IN_PLACE,
            "fs.s3a.committer.name": "magic",
            "fs.s3a.committer.uuid": label,
            # Those of other pipelines that write to the same folder go on.
            "fs.s3a.committer.abort.pending.uploads": "false",
            "mapreduce.outputcommitter.factory.scheme.s3": _COMMITTERS,
            "mapreduce.outputcommitter.factory.scheme.s3a": _COMMITTERS,
        }

    def clear(self, storage: Storage, folder: str, label: str) -> None:
        assert isinstance(storage, Hadoop)
        storage.delete(join(folder, f"__magic_job-{label}"))
        storage.abort_uploads(folder, label)


class S3(ObjectStore):
    name = "s3"
    aliases = ("s3a", "aws-s3", "minio")
    schemes = ("s3", "s3a")
    jars = (
        "org.apache.hadoop:hadoop-aws:3.4.2",
        *(f"software.amazon.awssdk:{part}:{_SDK}" for part in _SDK_PARTS),
        "software.amazon.eventstream:eventstream:1.0.1",
        "org.reactivestreams:reactive-streams:1.0.4",
        COMMITTERS_JAR,
    )
    Source = Source
    Sink = Sink
    committer = ByUpload()
    speaks = re.compile(r"awssdk|s3a\.")
    denied = re.compile(
        r"AccessDenied|InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken|InvalidToken|Status Code: 403"
        r"|NoAwsCredentials|NoAuthWithAWS|Unable to load credentials|CredentialInitialization"
    )
    missing = re.compile(r"NoSuchBucket|UnknownStoreException")
    passing = re.compile(
        r"Unable to execute HTTP request|UnknownHostException|ConnectException|ConnectTimeout|SocketTimeout"
        r"|SlowDown|AWSServiceThrottled|Status Code: 50\d|RequestTimeout"
    )
