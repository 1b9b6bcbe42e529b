"""Where datasets come from and where they are kept."""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlparse

import platformdirs

from ..errors import ConfigError

__all__ = ["Notify", "Sources", "is_remote", "local_path"]

Notify = Callable[[str], None]

# Where the path separator is ':', it also occurs in addresses: after the scheme and before the port.
_MIRRORS = re.compile(rf"(?:https?|file)://[^/{os.pathsep}]*(?::\d+)?[^{os.pathsep}]*|[^{os.pathsep}]+", re.IGNORECASE)


@dataclass(frozen=True)
class Sources:
    """The cache, the mirrors, and whether the network may be used.

    Attributes
    ----------
    cache : Path
        Folder of downloaded files and prepared arrays; created when needed.
    mirrors : tuple of str
        Folders, ``file://`` or ``http(s)://`` addresses, tried in this order; files are ``<mirror>/<dataset>/<file>``.
    offline : bool
        If True, no http request is made.
    keeps : bool
        If True, files of the cache are not replaced by those of other addresses: for commands that only check.
    """

    cache: Path
    mirrors: tuple[str, ...] = ()
    offline: bool = False
    keeps: bool = False

    @classmethod
    def from_environment(cls, mirrors: tuple[str, ...] = (), offline: bool = False) -> "Sources":
        """Add the mirrors of ``OPAUC_BENCH_MIRROR``, which are tried last, and the cache of ``OPAUC_BENCH_CACHE``.

        Raises
        ------
        ConfigError
            A mirror is an address with another scheme than http, https and file.
        """
        found = [*mirrors, *_mirrors_of_environment()]
        for mirror in found:
            scheme = re.match(r"(\w+)://", mirror)
            if scheme and scheme[1].lower() not in ("http", "https", "file"):
                raise ConfigError(f"mirror {mirror!r}: expected a folder, or an http, https or file address")
            try:
                urlparse(mirror)
            except ValueError as error:
                raise ConfigError(f"mirror {mirror!r}: {error}") from None
        cache = os.environ.get("OPAUC_BENCH_CACHE")
        folder = Path(os.path.expanduser(cache)).absolute() if cache else _default_cache()
        return cls(folder, tuple(dict.fromkeys(found)), offline)

    @property
    def named_mirrors(self) -> list[str]:
        """Mirrors that are not in ``OPAUC_BENCH_MIRROR``: those of the command line."""
        return [mirror for mirror in self.mirrors if mirror not in _mirrors_of_environment()]


def _mirrors_of_environment() -> list[str]:
    return _MIRRORS.findall(os.environ.get("OPAUC_BENCH_MIRROR", ""))


def _default_cache() -> Path:
    checkout = Path(__file__).resolve().parents[2]
    if (checkout / "pyproject.toml").exists() and (checkout / "datasets" / "catalogue.yaml").exists():
        return checkout / "datasets" / "cache"
    return platformdirs.user_cache_path("opauc-bench")


def is_remote(address: str) -> bool:
    """Whether an address needs the network."""
    return address.lower().startswith(("http://", "https://"))


def local_path(address: str) -> Path:
    """Return the path of a folder name or a ``file://`` address."""
    if address.lower().startswith("file://"):
        return Path(unquote(urlparse(address).path))
    return Path(os.path.expanduser(address))
