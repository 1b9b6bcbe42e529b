"""What is at hand, without the network; and whether what is at hand is still good."""

from dataclasses import dataclass
from pathlib import Path

from ..errors import DataError
from .build import at_hand
from .cache import cached_file, changed_at_origin, check_cached, kept_file, local_file, local_origin
from .catalogue import DatasetEntry, Form
from .sources import Sources, is_remote
from .store import find_prepared, fingerprint_of, open_folder, prepared_folder

__all__ = ["Check", "availability", "download_size", "has_changed_files", "verify"]


def availability(entry: DatasetEntry, sources: Sources) -> str:
    """Say how a dataset can be had, without asking the network.

    Returns
    -------
    {"prepared", "cached", "mirror", "local", "download", "unavailable"}
        The arrays are ready; the files are in the cache (or inside scikit-learn); they are in mirror folders
        (or partly in the cache); all are files of the user's own; some must come over the network; nobody is known to
        have some of them.
    """
    if find_prepared(entry, sources):
        return "prepared"
    best = "unavailable"
    for form in entry.forms:
        if all(kept_file(entry, file, sources) for file in form.files):
            return "cached"
        if at_hand(entry, form, sources):
            best = "local" if form.files and all(map(local_origin, form.files)) else "mirror"
        elif best not in ("mirror", "local") and not sources.offline and _addressed(entry, form, sources):
            best = "download"
    return best


def has_changed_files(entry: DatasetEntry, sources: Sources) -> bool:
    """Whether a file of the user's own is not what it was when it was copied into the cache."""
    return any(changed_at_origin(entry, file, sources) for form in entry.forms for file in form.files)


def download_size(entry: DatasetEntry, sources: Sources) -> int | None:
    """Return how many bytes a download moves at most (if nothing is compressed), or None if unknown."""
    if availability(entry, sources) != "download":
        return 0
    sizes = [file.bytes for file in entry.files if not kept_file(entry, file, sources)]
    return None if None in sizes else sum(sizes)


def _addressed(entry: DatasetEntry, form: Form, sources: Sources) -> bool:
    """Whether each file that is not here has an address to ask (a remote mirror may have anything)."""
    remote_mirror = any(is_remote(mirror) for mirror in sources.mirrors)
    return remote_mirror or all(
        kept_file(entry, file, sources) or local_file(entry, file, sources) or any(map(is_remote, file.urls))
        for file in form.files
    )


@dataclass(frozen=True)
class Check:
    """One thing that was verified.

    Attributes
    ----------
    item : str
        A file name, or ``"arrays"``.
    ok : bool
        Whether it is what it should be.
    detail : str
        The hash, or what is wrong.
    hint : str
        The command that mends it.
    """

    item: str
    ok: bool
    detail: str
    hint: str = ""


def verify(entry: DatasetEntry, sources: Sources) -> list[Check]:
    """Hash all that the cache holds of a dataset again.

    Returns
    -------
    list of Check
        One for each file and each set of prepared arrays; empty if the cache has nothing.
    """
    mend = entry.fetch_command
    checks = []
    for file in [file for form in entry.forms for file in form.files]:
        path = cached_file(entry, file, sources)
        if path is not None:
            try:
                checks.append(Check(file.name, True, f"sha256 {check_cached(entry, file, path).sha256}"))
            except DataError as error:
                checks.append(Check(file.name, False, error.message, mend))
    for folder in sorted(prepared_folder(entry, sources).glob("[!.]*")):
        checks.append(_check_arrays(folder, mend))
    return checks


def _check_arrays(folder: Path, mend: str) -> Check:
    try:
        dataset = open_folder(folder)
        came = fingerprint_of(folder, dataset.manifest["storage"], dataset.X.shape)
    except DataError as error:
        return Check("arrays", False, error.message, mend)
    if came != dataset.fingerprint:
        return Check("arrays", False, f"{folder}: expected {dataset.fingerprint}, got {came}", mend)
    return Check("arrays", True, f"fingerprint {came}")
