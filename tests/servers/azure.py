"""Azurite as Azure's blob storage, looked into with Azure's own client. In memory: a restart forgets all."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from azure.core.exceptions import AzureError
from azure.storage.blob import BlobServiceClient

from tests.servers.cached import kept, run
from tests.servers.process import Process, free_ports, listens

PACKAGE = "azurite@3.35.0"
MAIN = "node_modules/azurite/dist/src/blob/main.js"
ACCOUNT = "devstoreaccount1"
# Everybody's: it is in Azurite's manual, and there is no other.
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


class Azurite(Process):
    """A storage of one account, which lets in who has its key."""

    def __init__(self, folder: Path) -> None:
        (self._port,) = free_ports(1)
        command = [
            "node",
            str(kept("azurite", PACKAGE, _install) / MAIN),
            *("--blobHost", "127.0.0.1", "--blobPort", str(self._port), "--inMemoryPersistence"),
            *("--skipApiVersionCheck", "--loose", "--disableTelemetry"),
        ]
        super().__init__("Azurite", command, folder / "azurite.log", self._answers)

    @property
    def address(self) -> str:
        """host:port."""
        return f"127.0.0.1:{self._port}"

    @property
    def endpoint(self) -> str:
        """The root of the account's blobs."""
        return f"http://{self.address}/{ACCOUNT}"

    def client(self, key: str = KEY) -> BlobServiceClient:
        """A client of the account."""
        return BlobServiceClient(self.endpoint, {"account_name": ACCOUNT, "account_key": key}, retry_total=0)

    def create_container(self, name: str) -> None:
        self._client.create_container(name)

    def put(self, container: str, key: str, data: bytes) -> None:
        self._client.get_blob_client(container, key).upload_blob(data, overwrite=True)

    def get(self, container: str, key: str) -> bytes:
        return self._client.get_blob_client(container, key).download_blob().readall()

    def keys(self, container: str, prefix: str = "") -> list[str]:
        """All keys that begin so, in order."""
        return list(self._client.get_container_client(container).list_blob_names(name_starts_with=prefix))

    @cached_property
    def _client(self) -> BlobServiceClient:
        return self.client()

    def _answers(self) -> bool:
        if not listens(self._port):
            return False
        try:
            self._client.get_service_properties()
        except AzureError:
            return False
        return True


def _install(folder: Path) -> None:
    run("npm", ["npm", "install", "--prefix", str(folder), "--no-audit", "--no-fund", PACKAGE])
