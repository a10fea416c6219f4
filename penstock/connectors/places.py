"""Where tables stand: in a folder of the project's warehouse, or in a store, as `delta+s3://bucket/path`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field, model_validator

from penstock.connectors import azure, gcs, s3
from penstock.connectors import storage as stores
from penstock.connectors.base import Connector, Places, Uri
from penstock.options import Options, Value

_ACCESS: dict[str, type[Options]] = {
    "s3": s3.Access, "s3a": s3.Access, "gs": gcs.Access,
    "azure": azure.Access, "az": azure.Access, "abfs": azure.Access, "abfss": azure.Access,
}  # fmt: skip
"""How the store of each scheme is reached."""


class Stored(s3.Access, gcs.Access, azure.Access):
    """Where a table stands: a folder, or a place in a store with all that is needed to reach it."""

    path: str

    @model_validator(mode="after")
    def _of_its_store(self) -> Stored:
        """Options of another store than that of the path are unknown ones."""
        given = {name for model in _ACCESS.values() for name in model.model_fields} & self.model_fields_set
        known = _ACCESS.get(scheme_of(self.path))
        strange = sorted(given - set(known.model_fields if known else ()))
        if strange:
            raise ValueError(f"{strange[0]} is of no use for {self.path}")
        return self

    def hadoop(self) -> dict[str, str]:
        """What Hadoop is to know of the store."""
        kind, root = _ACCESS.get(scheme_of(self.path)), stores.root_of(self.path)
        if kind is s3.Access:
            return s3.Access.settings_for(self, root.partition("://")[2])
        if kind is azure.Access:
            return azure.Access.settings_for(self, root.rpartition("@")[2])
        return gcs.Access.hadoop(self) if kind is gcs.Access else {}


def scheme_of(path: str) -> str:
    """`s3` of `s3://bucket/key`; nothing for a path without one."""
    return path.partition("://")[0].lower() if stores.is_remote(path) else ""


class Place(Stored):
    """A path of a table."""

    path: str = Field("", description="The table's folder; a relative one begins in the `warehouse`.")
    warehouse: str = Field(
        ".", description="Where a relative path begins; `warehouse:` of the project unless set."
    )

    @model_validator(mode="before")
    @classmethod
    def _whole(cls, values: Any) -> Any:
        path = values.get("path") or ""
        whole = path if _is_whole(path) else stores.join(values.get("warehouse") or ".", path)
        return {**values, "path": azure.named(stores.absolute(whole), values)}

    @model_validator(mode="after")
    def _somewhere(self) -> Place:
        if self.path == stores.absolute(self.warehouse):
            raise ValueError("expected the path of a table")
        return self


class InPlaces(Connector):
    """Tables that are known by their paths."""

    def settings_of(self, uri: Uri) -> dict[str, Value]:
        store, user = uri.scheme.partition("+")[2], f"{uri.user}@" if uri.user else ""
        path = f"{uri.authority}/{uri.path}"
        return {"path": f"{store}://{user}{path}" if store else path, **dict(uri.query)}

    def settings_in(self, project: Places) -> dict[str, Value]:
        return {"warehouse": project.tables}

    def store_of(self, settings: Mapping[str, Value]) -> str | None:
        path, warehouse = (str(settings.get(key) or "") for key in ("path", "warehouse"))
        return scheme_of(path if _is_whole(path) else warehouse) or None


def schemes_of(name: str, *others: str) -> tuple[str, ...]:
    """The schemes of such tables: in the warehouse, in each store of objects, and in `others`."""
    return (name, *(f"{name}+{store}" for store in (*_ACCESS, *others)))


def _is_whole(path: str) -> bool:
    return stores.is_remote(path) or path.startswith(("/", "~", "file:"))
