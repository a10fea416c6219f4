"""Files in Azure Blob Storage and Data Lake Storage. Exactly once: the files of a batch appear one after the
other, each whole, and a batch that runs again replaces its own files.

A URI is `azure://container/path` with the account in the options, or as Hadoop writes it:
`abfss://container@account.dfs.core.windows.net/path`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from pydantic import AliasChoices, Field, SecretStr, model_validator

from penstock.connectors import files
from penstock.connectors.base import Uri
from penstock.connectors.object_stores import InStore, ObjectStore, told
from penstock.connectors.storage import root_of
from penstock.options import Options

_DOMAIN = "dfs.core.windows.net"
_LOGIN = "https://login.microsoftonline.com/{}/oauth2/token"
_PROVIDERS = "org.apache.hadoop.fs.azurebfs.oauth2."


class Access(Options):
    """How an account is reached."""

    account: str | None = Field(
        None,
        description="The storage account.",
        validation_alias=AliasChoices("account", "account_name", "storage_account"),
    )
    account_key: SecretStr | None = Field(
        None,
        description="The account's key.",
        validation_alias=AliasChoices("account_key", "azure.account.key"),
    )
    sas_token: SecretStr | None = Field(
        None, description="A token of a shared access signature, for the container or the account."
    )
    tenant_id: str | None = Field(None, description="The directory of a service principal.")
    client_id: str | None = Field(
        None, description="A service principal; alone, the identity of the machine by that id."
    )
    client_secret: SecretStr | None = Field(None, description="Its secret.")
    endpoint: str | None = Field(
        None, description="The address of a store other than Microsoft's, such as http://localhost:10000."
    )

    @model_validator(mode="after")
    def _one_way_into_azure(self) -> Access:
        if sum(way is not None for way in (self.account_key, self.sas_token, self.client_id)) > 1:
            raise ValueError("account_key, sas_token and client_id exclude each other")
        if self.client_secret is not None and (self.client_id is None or self.tenant_id is None):
            raise ValueError("client_secret needs client_id and tenant_id")
        return self

    def settings_for(self, host: str) -> dict[str, str]:
        """What Hadoop is to know of an account, by its host's name."""
        settings: dict[str, str | None] = {
            # Failures are tried again as the sink or the stream says.
            "fs.azure.io.retry.max.retries": "3",
            f"fs.azure.account.key.{host}": told(self.account_key),
        }
        if self.sas_token is not None:
            settings |= {
                f"fs.azure.account.auth.type.{host}": "SAS",
                f"fs.azure.sas.fixed.token.{host}": told(self.sas_token),
            }
        if self.client_secret is not None:
            settings |= {
                f"fs.azure.account.auth.type.{host}": "OAuth",
                f"fs.azure.account.oauth.provider.type.{host}": f"{_PROVIDERS}ClientCredsTokenProvider",
                f"fs.azure.account.oauth2.client.endpoint.{host}": _LOGIN.format(self.tenant_id),
                f"fs.azure.account.oauth2.client.id.{host}": self.client_id,
                f"fs.azure.account.oauth2.client.secret.{host}": told(self.client_secret),
            }
        elif self.account_key is None and self.sas_token is None:
            settings |= {
                f"fs.azure.account.auth.type.{host}": "OAuth",
                f"fs.azure.account.oauth.provider.type.{host}": f"{_PROVIDERS}MsiTokenProvider",
                f"fs.azure.account.oauth2.msi.tenant.{host}": self.tenant_id,
                f"fs.azure.account.oauth2.client.id.{host}": self.client_id,
            }
        url = urlsplit(self.endpoint or "https:")
        # The one setting of these that Hadoop does not know by account.
        settings["fs.azure.always.use.https"] = str(url.scheme != "http").lower()
        if self.endpoint is not None:
            settings |= {
                f"fs.azure.abfs.endpoint.{host}": url.netloc,
                f"fs.azure.fns.account.service.type.{host}": "BLOB",
                f"fs.azure.account.hns.enabled.{host}": "false",
            }
        return {key: value for key, value in settings.items() if value is not None}


class Location(Access, InStore):
    begins = r"abfss?://[^/@]+@[^/]+"
    expected = "azure://container/name and `account`, or abfss://container@account..."

    container: str | None = Field(None, description="The container, for a `path` that is only a name in it.")
    path: str = Field(
        "", description="azure://container/name, abfss://container@account.dfs.core.windows.net/name, or a"
        " name with `container`; as for files.",
    )  # fmt: skip

    @classmethod
    def named_root(cls, values: Mapping[str, Any]) -> str | None:
        return f"azure://{values['container']}" if values.get("container") else None

    @classmethod
    def spelled(cls, path: str, values: Mapping[str, Any]) -> str:
        return named(path, values)

    def hadoop(self) -> dict[str, str]:
        return self.settings_for(root_of(self.path).rpartition("@")[2])


def named(path: str, values: Mapping[str, Any]) -> str:
    """A path as Hadoop writes it, with the account of these options in it."""
    uri = Uri.parse(path)
    if uri.scheme not in ("azure", "az") or not values.get("account"):
        return path
    scheme = "abfs" if str(values.get("endpoint")).startswith("http://") else "abfss"
    return f"{scheme}://{uri.authority}@{values['account']}.{_DOMAIN}/{uri.path}"


class Source(Location, files.Source):
    pass


class Sink(Location, files.Sink):
    pass


class Azure(ObjectStore):
    name = "azure"
    aliases = ("abfs", "abfss", "azure-blob", "adls")
    schemes = ("azure", "az", "abfs", "abfss")
    jars = (
        "org.apache.hadoop:hadoop-azure:3.4.2",
        "com.microsoft.azure:azure-storage:7.0.1",
        "com.microsoft.azure:azure-keyvault-core:1.0.0",
        "org.wildfly.openssl:wildfly-openssl:2.1.4.Final",
    )
    Source = Source
    Sink = Sink
    speaks = re.compile(r"azurebfs|AbfsRestOperation")
    denied = re.compile(
        r"AuthenticationFailed|AuthorizationFailure|InvalidAuthenticationInfo|\b403\b|AADToken|KeyProviderException"
        r"|Invalid storage account key|AccessDeniedException"
    )
    missing = re.compile(
        r"ContainerNotFound|FilesystemNotFound|The specified (?:container|filesystem) does not exist"
    )
    passing = re.compile(
        r"ConnectException|UnknownHostException|SocketTimeout|ServerBusy|OperationTimedOut|\b50[0-4]\b,"
    )

    def entered_at(self, root: str) -> str:
        return root.rpartition("@")[2]  # the account
