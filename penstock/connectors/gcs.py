"""Files in Google Cloud Storage. Exactly once: the files of a batch appear one after the other, each whole,
and a batch that runs again replaces its own files.

Without credentials in the options they are those of the machine, or of the file that
GOOGLE_APPLICATION_CREDENTIALS names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic import Field, SecretStr, model_validator

from penstock.connectors import files
from penstock.connectors.object_stores import COMMITTERS_JAR, ByManifest, InStore, ObjectStore, told
from penstock.options import Options


class Access(Options):
    """How buckets are reached."""

    project: str | None = Field(None, description="The project that is charged.")
    service_account_file: str | None = Field(
        None, description="A file with the key of a service account, as JSON."
    )
    client_email: str | None = Field(None, description="A service account, in place of a file.")
    private_key: SecretStr | None = Field(None, description="Its private key.")
    private_key_id: str | None = Field(None, description="The id of that key.")
    anonymous: bool = Field(False, description="Whether to come without credentials, as to public data.")
    endpoint: str | None = Field(None, description="The address of a store other than Google's.")

    @model_validator(mode="after")
    def _one_way_into_gcs(self) -> Access:
        account = (self.client_email, self.private_key, self.private_key_id)
        if any(part is None for part in account) != all(part is None for part in account):
            raise ValueError("client_email, private_key and private_key_id belong together")
        ways = (self.service_account_file, self.client_email, self.anonymous or None)
        if sum(way is not None for way in ways) > 1:
            raise ValueError("service_account_file, client_email and anonymous exclude each other")
        return self

    def hadoop(self) -> dict[str, str]:
        """What Hadoop is to know."""
        settings = {
            "fs.gs.impl": "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem",
            "fs.gs.project.id": self.project,
            "fs.gs.storage.root.url": self.endpoint,
            "fs.gs.auth.service.account.json.keyfile": self.service_account_file,
            "fs.gs.auth.service.account.email": self.client_email,
            "fs.gs.auth.service.account.private.key": told(self.private_key),
            "fs.gs.auth.service.account.private.key.id": self.private_key_id,
            "fs.gs.auth.null.enable": "true" if self.anonymous else None,
            "fs.gs.auth.service.account.enable": "false" if self.anonymous else None,
            # Failures are tried again as the sink or the stream says.
            "fs.gs.http.max.retry": "2",
            "fs.gs.http.connect-timeout": "10000",
        }
        return {key: value for key, value in settings.items() if value is not None}


class Location(Access, InStore):
    begins = r"gs://[^/]+"
    expected = "a path in a bucket: gs://bucket/key, or `bucket` and `path`"

    bucket: str | None = Field(None, description="The bucket, for a `path` that is only a key in it.")
    path: str = Field("", description="gs://bucket/key, or a key with `bucket`; as for files.")

    @classmethod
    def named_root(cls, values: Mapping[str, Any]) -> str | None:
        return f"gs://{values['bucket']}" if values.get("bucket") else None


class Source(Location, files.Source):
    pass


class Sink(Location, files.Sink):
    pass


class Gcs(ObjectStore):
    name = "gcs"
    aliases = ("gs", "google-cloud-storage")
    schemes = ("gs",)
    jars = ("com.google.cloud.bigdataoss:gcs-connector:hadoop3-2.2.28:shaded", COMMITTERS_JAR)
    Source = Source
    Sink = Sink
    committer = ByManifest(
        gs="org.apache.hadoop.mapreduce.lib.output.committer.manifest.ManifestCommitterFactory"
    )
    speaks = re.compile(r"com\.google\.")
    denied = re.compile(
        r'"code" ?: ?40[13]|\b401 Unauthorized|\b403 Forbidden|invalid_grant|Error getting access token'
    )
    missing = re.compile(r"The specified bucket does not exist|JsonResponseException: 404")
    passing = re.compile(
        r"ConnectException|UnknownHostException|SocketTimeout|\b50\d (?:Service|Internal|Bad)"
    )

    def entered_at(self, root: str) -> str:
        return "gs"  # its settings know no bucket
