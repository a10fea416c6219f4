"""YAML -> Project and Endpoint: `extends`, profiles, and secrets by reference.

redact      which keys hold secrets, and how things look without them
references  ${env:NAME}, ${file:path}, ${secret:name}, resolved late
secrets     the secret store
tree        YAML text -> values that know their place
overlay     how a file is laid over its base
load        files -> one merged document
check       a tree against a pydantic model
profiles    performance and delivery profiles
vocabulary  the words of an endpoint's file -> a connector's settings (sections, client: what they may say)
endpoint    files with `datasource:` or `datasink:`
project     penstock.yaml
show        the merged result, with where each value came from
"""

from __future__ import annotations

from penstock.config.endpoint import Endpoint, load_endpoint
from penstock.config.load import Document, Files, load
from penstock.config.profiles import Defaults, DeliveryProfile, Effect, PerformanceProfile, Profiles, Role
from penstock.config.project import SETTABLE, Project, find_project, load_project
from penstock.config.redact import concealed_pairs, hide, looks_secret, redact
from penstock.config.references import Secret, has_reference, resolve, resolve_settings
from penstock.config.secrets import SecretStore
from penstock.config.show import Shown, show

__all__ = [
    "SETTABLE",
    "Defaults",
    "DeliveryProfile",
    "Document",
    "Effect",
    "Endpoint",
    "Files",
    "PerformanceProfile",
    "Profiles",
    "Project",
    "Role",
    "Secret",
    "SecretStore",
    "Shown",
    "concealed_pairs",
    "find_project",
    "has_reference",
    "hide",
    "load",
    "load_endpoint",
    "load_project",
    "looks_secret",
    "redact",
    "resolve",
    "resolve_settings",
    "show",
]
