"""URIs as people write them: `scheme://user:password@host:port,host:port/path?key=value`.

Plain paths (`data/*.csv`, `/tmp/x.json`) are URIs without a scheme. Globs and templates (`*`, `{YYYY}`)
stay as they are, so nothing is percent-decoded but user, password and query.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_CREDENTIALS = re.compile(r"(?<=://)([^/@:?#\s'\"]*:)([^/?#\s'\"]*)(?=@)")
_SECRET_PARAMETER = re.compile(
    r"([?&;][\w.-]*(?:password|passwd|secret|token|key)=)([^&#;\s'\"]+)", re.IGNORECASE
)


@dataclass(frozen=True)
class Uri:
    text: str = field(repr=False)
    scheme: str = ""
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    authority: str = ""
    """Hosts and ports, without credentials; a bucket or container on object stores."""
    path: str = ""
    """Without its leading slash, except for `file:///x` and plain paths, which keep it."""
    query: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @classmethod
    def parse(cls, text: str) -> Uri:
        match = _SCHEME.match(text)
        if match is None:
            return cls(text, path=text)
        scheme, rest = match[1].lower(), text[match.end() :]
        if scheme == "file":
            return cls(text, scheme, path=rest)
        rest, _, query = rest.partition("?")
        authority, _, path = rest.partition("/")
        credentials, at, hosts = authority.rpartition("@")
        user, colon, password = credentials.partition(":")
        return cls(
            text=text,
            scheme=scheme,
            user=unquote(user) if at else None,
            password=unquote(password) if colon else None,
            authority=hosts,
            path=path,
            query=tuple(parse_qsl(query, keep_blank_values=True)),
        )

    def __str__(self) -> str:
        return mask(self.text)


def mask(text: str, *, keep_length: bool = False) -> str:
    """`text` with the passwords inside its URIs replaced by `***`, or by as many stars to keep columns."""

    def stars(match: re.Match[str]) -> str:
        return match[1] + ("*" * len(match[2]) if keep_length else "***")

    return _SECRET_PARAMETER.sub(stars, _CREDENTIALS.sub(stars, text))


def passwords(text: str) -> list[str]:
    """The passwords inside the URIs of `text`, as they are written there."""
    return [match[2] for match in _CREDENTIALS.finditer(text) if match[2]]
