"""`penstock.yaml` -> Project: what holds for all statements of a folder."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, InstanceOf, PrivateAttr, ValidationError

from penstock.config.check import Text, check, require_map
from penstock.config.endpoint import Endpoint, load_endpoint, named_settings, type_and_settings
from penstock.config.load import Document, Files, load
from penstock.config.overlay import PROFILES, SECTIONS
from penstock.config.profiles import (
    Defaults,
    DeliveryProfile,
    PerformanceProfile,
    Profiles,
    Role,
    built_in,
)
from penstock.config.references import resolve
from penstock.config.secrets import SecretStore
from penstock.config.tree import Node
from penstock.errors import ConfigError, OptionError, Place, did_you_mean
from penstock.options import Options, Setting

FILE = "penstock.yaml"


def _spark_text(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, bool | float) else value


_SparkValue = Annotated[Text, BeforeValidator(_spark_text)]


class Project(Options):
    """A project's settings, references unresolved; `resolved` looks them up when they are needed."""

    name: Text | None = Field(None, description="Name of the project.")
    master: Text = Field("local[*]", description="Where Spark runs: local[*], spark://, yarn, k8s://.")
    spark: dict[str, _SparkValue] = Field(
        default_factory=dict,
        repr=False,
        description="Spark's own settings, such as spark.sql.shuffle.partitions.",
    )
    state: Text = Field(".penstock", description="Folder for the state of pipelines and the catalog.")
    warehouse: Text | None = Field(
        None, description="Where relative paths of tables begin; this file's folder unless set."
    )
    streams: Text | None = Field(
        None,
        repr=False,
        description="Where bare names are streams: kafka://broker:9092; a folder of the state unless set.",
    )
    data_sources: dict[str, InstanceOf[Endpoint]] = Field(
        default_factory=dict, description="Sources and sinks by name, each with a type and its options."
    )
    catalogs: dict[str, InstanceOf[Endpoint]] = Field(
        default_factory=dict,
        description="Catalogs of tables by name: type, uri, warehouse, and whatever else each takes.",
    )
    defaults: dict[str, InstanceOf[Endpoint]] = Field(
        default_factory=dict, description="Options by the name of a connector, for all that do not set them."
    )
    performance_profiles: dict[str, InstanceOf[PerformanceProfile]] = Field(
        default_factory=dict, description="Profiles for speed by name."
    )
    delivery_profiles: dict[str, InstanceOf[DeliveryProfile]] = Field(
        default_factory=dict, description="Profiles for delivery by name."
    )
    performance_profile: Text | None = Field(None, description="Profile for speed where none is chosen.")
    delivery_profile: Text | None = Field(None, description="Profile for delivery where none is chosen.")

    _folder: str = PrivateAttr(default="")
    _places: dict[str, Place] = PrivateAttr(default_factory=dict)
    _profiles: Profiles = PrivateAttr(default_factory=built_in)

    @property
    def tables(self) -> str:
        """Where relative paths of tables begin: the warehouse, or the project's own folder."""
        return _under(self._folder, self.warehouse) if self.warehouse else self._folder or "."

    def at(self, key: str) -> Place | None:
        """Where `key` was written; None for a default."""
        return self._places.get(key)

    def resolved(self, key: str, secrets: SecretStore | None = None) -> Any:
        """The value of a key with its references looked up."""
        value = getattr(self, key)
        if key != "spark":
            return resolve(value, key=key, at=self.at(key), secrets=secrets)
        return {
            name: resolve(text, key=name, at=self.at(f"spark.{name}"), secrets=secrets)
            for name, text in value.items()
        }

    def secrets(self) -> SecretStore:
        """The secret store, beside the catalog: on this machine even when the state is elsewhere."""
        folder = ".penstock" if "://" in self.state else self.state
        return SecretStore(Path(folder) / "secrets.json")

    def profiles(self) -> Defaults:
        """The profiles there are, and the project's choice."""
        return Defaults(self._profiles, *(self._choice(key) for key in _CHOICES))

    def endpoint(
        self,
        path: str | Path,
        role: Role | None = None,
        *,
        at: Place | None = None,
        performance_profile: Setting | None = None,
        delivery_profile: Setting | None = None,
        files: Files | None = None,
    ) -> Endpoint:
        """The endpoint of a file, under this project's profiles."""
        return load_endpoint(
            path,
            role=role,
            at=at,
            performance_profile=performance_profile,
            delivery_profile=delivery_profile,
            defaults=self.profiles(),
            files=files,
        )

    def with_setting(self, setting: Setting) -> Project:
        """This project after `SET key = value`."""
        if setting.key not in SETTABLE:
            message = f"'{setting.key}' cannot be set in a statement"
            raise OptionError(
                "unknown-setting", message, at=setting.at, hint=did_you_mean(setting.key, SETTABLE)
            )
        try:
            Project.model_validate({setting.key: setting.value})
        except ValidationError:
            message = f"'{setting.key}' takes a text"
            hint = Project.model_fields[setting.key].description
            raise OptionError("bad-option", message, at=setting.at, hint=hint) from None
        changed = self.model_copy(update={setting.key: setting.value})
        changed._places = {key: place for key, place in self._places.items() if key != setting.key}
        if setting.at is not None:
            changed._places[setting.key] = setting.at
        _check_choices(changed)
        return changed

    def _choice(self, key: str) -> Setting | None:
        name = getattr(self, key)
        return None if name is None else Setting(key, name, self.at(key))


_CHOICES = ("performance_profile", "delivery_profile")
SETTABLE = ("streams", *_CHOICES)
"""What SET changes in a statement."""


def find_project(start: str | Path | None = None) -> Project:
    """The project of a folder (the working one unless given) or of a file; the default one if it has none."""
    path = Path(start) if start is not None else Path()
    if path.is_dir():
        path = path / FILE
        if not path.exists():
            project = Project()
            folder = os.path.normpath(path.parent)
            project = project.model_copy(update={"state": _under(folder, project.state)})
            project._folder = folder
            return project
    return load_project(path)


def load_project(path: str | Path) -> Project:
    """The project that a file, with all that it extends, describes."""
    return project_of(load(path))


def project_of(document: Document) -> Project:
    """The project of a merged document."""
    root = document.root
    for section in SECTIONS:
        if section in root.items:
            at = root.items[section].key_at or root.at
            hint = "name this file in a statement: WITH (source_config = '...') or sink_config"
            raise ConfigError(
                "not-a-project", f"'{section}' does not belong into a project", at=at, hint=hint
            )
    # a null in a derived file takes away what its base says
    root = root.with_items({key: child for key, child in root.items.items() if child.value is not None})
    profiles = built_in().over(root)
    project = check(Project, root, "the project", given=_built(root, profiles))
    _check_spark(root)
    project = project.model_copy(update={"state": _state(project, root, document)})
    project._profiles = profiles
    project._folder = os.path.dirname(document.files[0])
    project._places = _places(root)
    _check_choices(project)
    return project


def _built(root: Node, profiles: Profiles) -> dict[str, Any]:
    built: dict[str, Any] = {}
    sources = root.items.get("data_sources")
    if sources is not None:
        require_map(sources, "'data_sources'")
        built["data_sources"] = {
            name: type_and_settings(node, f"data source '{name}'") for name, node in sources.items.items()
        }
    for section in ("defaults", "catalogs"):
        if section in root.items:
            require_map(root.items[section], f"'{section}'")
            built[section] = {
                name: named_settings(section, name, node) for name, node in root.items[section].items.items()
            }
    for key, known in zip(PROFILES, (profiles.performance, profiles.delivery), strict=True):
        if key in root.items:
            built[key] = {name: known[name] for name in root.items[key].items}
    return built


def _check_spark(root: Node) -> None:
    for key, child in root.items["spark"].items.items() if "spark" in root.items else ():
        if not key.startswith("spark."):
            message = f"'{key}' is not one of Spark's settings"
            raise ConfigError("unknown-key", message, at=child.key_at, hint=f"write 'spark.{key}'")


def _check_choices(project: Project) -> None:
    for key in _CHOICES:
        name = getattr(project, key)
        if name is not None:
            list(project._profiles.effects(key.removesuffix("_profile"), name, "sink", project.at(key)))


def _state(project: Project, root: Node, document: Document) -> str:
    """The state folder: relative to the file that names it, or to the project's own."""
    node = root.items.get("state")
    source = node.at.source if node else document.files[0]
    return _under(os.path.dirname(source), resolve(project.state, key="state", at=node.at if node else None))


def _under(folder: str, path: str) -> str:
    return path if "://" in path else os.path.normpath(os.path.join(folder, path))


def _places(root: Node) -> dict[str, Place]:
    places = {key: child.at for key, child in root.items.items()}
    if "spark" in root.items:
        places |= {f"spark.{key}": child.at for key, child in root.items["spark"].items.items()}
    return places
