"""URIs as people write them: `scheme://user:password@host:port,host:port/path?key=value`.

Plain paths (`data/*.csv`, `/tmp/x.json`) are URIs without a scheme. Globs and templates (`*`, `{YYYY}`)
stay as they are, so nothing is percent-decoded but user, password and query.

A password may hold any character; only where one could be a port (`user:12/34@host`), or has both an `@` and
a `/` or `?`, its `/` and `?` must be written `%2F` and `%3F`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote

STARS = "***"

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_BEHIND_HOSTS = re.compile(r"[/?]")
_COLONS_OF_HOSTS = re.compile(r"\[[^\]]*\]|\$\{[^}]*\}|:\d{1,5}(?=,|$)")
"""Of IPv6, of references, of ports."""

# The same in a text of anything: a URI may end with a quote, but a password may have quotes and blanks, too.
_GOES_ON = r"(?!['\"][,:;)\]}])(?!://)"
_NO_PORT = r"(?!\d{1,5}(?:[/?#,;\s'\")\]}]|$)|$)"
_CREDENTIALS = re.compile(
    r"(?<=://)((?:\$\{[^}]*\}|[^/@:?#\s'\"$]|\$(?!\{))*:)"
    rf"((?:{_GOES_ON}[^/?\s])*(?=@)"
    rf"|{_NO_PORT}[^/?\s@]*(?=@)"
    rf"|{_NO_PORT}(?:{_GOES_ON}\S)*(?=@)"
    rf"|{_NO_PORT}(?:(?!://)[^@\n])+(?:@[^/?@\s]+)*(?=@))"
)
_TOKEN_SCHEMES = ("nats", "tls", "http", "https", "ws", "wss", "websocket")
"""Where a user alone is mostly a token."""
_TOKEN = re.compile(rf"(\b(?:{'|'.join(_TOKEN_SCHEMES)})://)([^/@:?\s'\"]+)(?=@)", re.IGNORECASE)
_ENCODED = re.compile(r"(%3A%2F%2F(?:(?!%3A|%40|%2F)[^&\s])*%3A)((?:(?!%2F)[^&\s])*)(?=%40)", re.IGNORECASE)

_HIDDEN = (
    r"(?:[\w.-]*(?:password|passwd|pwd|passphrase|secret|token|key|credentials?|signature|authorization"
    r"|user[._-]?info|connection[._-]?string)"
    r"|(?:[\w.-]*[._-])?(?:sig|sas|auth|cookie|jaas[._-]config))"
)
_SECRET_PARAMETER = re.compile(
    rf"([?&;]{_HIDDEN}=)((?:[^&;\s'\"]|;(?![\w.-]+=)|['\"]+(?=[^\s,;:.)\]}}&'\"]))+)", re.IGNORECASE
)
_IS_HIDDEN = re.compile(_HIDDEN, re.IGNORECASE)


@dataclass(frozen=True)
class Uri:
    text: str = field(repr=False)
    scheme: str = ""
    user: str | None = field(default=None, repr=False)
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
        credentials, hosts, rest = _divided(rest)
        path, _, query = rest.partition("?")
        user, colon, password = (credentials or "").partition(":")
        return cls(
            text=text,
            scheme=scheme,
            user=None if credentials is None else unquote(user),
            password=unquote(password) if colon else None,
            authority=hosts,
            path=path.removeprefix("/"),
            query=tuple(parse_qsl(query, keep_blank_values=True)),
        )

    @property
    def query_as_written(self) -> str:
        return _divided(self.text.partition("://")[2])[2].partition("?")[2]

    def __str__(self) -> str:
        """Without what is secret."""
        if self.scheme in ("", "file"):
            return mask(self.text)
        start, _, rest = self.text.partition("://")
        credentials, hosts, rest = _divided(rest)
        path, mark, query = rest.partition("?")
        pairs = "&".join(map(_shown_pair, query.split("&")))
        return f"{start}://{_shown_login(self.scheme, credentials)}{hosts}{mask(path)}{mark}{pairs}"


def _divided(rest: str) -> tuple[str | None, str, str]:
    """Credentials, hosts, and the rest of what follows a scheme."""
    at = _until(rest).rfind("@")
    if at < 0 and ":" in _COLONS_OF_HOSTS.sub("", _until(rest)):
        at = rest.rfind("@")  # no hosts: the password goes on
    hosts = _until(rest[at + 1 :])
    return (rest[:at] if at >= 0 else None), hosts, rest[at + 1 + len(hosts) :]


def _until(rest: str) -> str:
    end = _BEHIND_HOSTS.search(rest)
    return rest[: end.start()] if end else rest


def _shown_login(scheme: str, credentials: str | None) -> str:
    if credentials is None:
        return ""
    user, colon, password = credentials.partition(":")
    if colon:
        return f"{user}:{STARS if password else ''}@"
    return f"{STARS if user and scheme in _TOKEN_SCHEMES else user}@"


def _shown_pair(pair: str) -> str:
    name, is_set, value = pair.partition("=")
    if _IS_HIDDEN.fullmatch(unquote(name)):
        return f"{name}{is_set}{STARS if value else ''}"
    plain = unquote(value)
    shown = str(Uri.parse(plain)) if _SCHEME.match(plain) else mask(plain)
    return f"{name}{is_set}{value if shown == plain else shown}"


def mask(text: str, *, keep_length: bool = False) -> str:
    """`text` with the passwords inside its URIs replaced by `***`, or by as many stars to keep columns."""

    def stars(match: re.Match[str]) -> str:
        return match[1] + ("*" * len(match[2]) if keep_length or not match[2] else STARS)

    for secret in (_CREDENTIALS, _TOKEN, _ENCODED, _SECRET_PARAMETER):
        text = secret.sub(stars, text)
    return text


def passwords(text: str) -> list[str]:
    """The passwords inside the URIs of `text`, as they are written there."""
    return [match[2] for match in _CREDENTIALS.finditer(text) if match[2]]
