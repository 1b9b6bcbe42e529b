"""One download over http, with retries, a size limit and progress messages."""

import time
from collections.abc import Callable
from pathlib import Path

from ..errors import DataError

__all__ = ["Notify", "Unreachable", "download"]

TIMEOUT = 30.0  # seconds without a byte
TRIES = 3
WAIT = 1.0  # seconds before the second try, doubled for each further one
REPORT_EVERY = 5.0  # seconds between progress messages

Notify = Callable[[str], None]


class Unreachable(Exception):
    """An address gave no file; the text says why.

    Attributes
    ----------
    answered : bool
        Whether a server was there and refused, so that it is worth asking it for another name.
    """

    def __init__(self, reason: str, answered: bool):
        super().__init__(reason)
        self.answered = answered


def download(address: str, target: Path, limit: int, what: str, notify: Notify) -> None:
    """Download a file; try again where the failure may be temporary.

    Parameters
    ----------
    address : str
        http or https.
    target : Path
        Overwritten.
    limit : int
        Bytes after which the transfer is given up.
    what : str
        For messages.
    notify : callable
        Called with a line of text every few seconds.

    Raises
    ------
    Unreachable
        No such file, no connection, no answer in time, or the transfer broke off.
    DataError
        More bytes than the limit.
    """
    import requests
    from pooch import HTTPDownloader

    for attempt in range(TRIES):
        if attempt:
            time.sleep(WAIT * 2 ** (attempt - 1))
        progress = _Progress(what, limit, notify)
        try:
            HTTPDownloader(progressbar=progress, chunk_size=1 << 16, timeout=TIMEOUT)(address, target, None)
            return
        except requests.HTTPError as error:
            status = error.response.status_code
            failure = Unreachable(f"HTTP status {status}", answered=True)
            if status < 500 and status != 429:
                break
        except requests.Timeout:
            failure = Unreachable(f"no answer in {TIMEOUT:g} s", answered=False)
        except requests.ConnectionError as error:
            late = "timed out" in str(error).lower()  # requests tells a stalled transfer as a lost connection
            failure = Unreachable("the transfer stalled" if late else "no connection", answered=False)
        except requests.RequestException as error:
            failure = Unreachable(f"the transfer broke off ({type(error).__name__})", answered=False)
    raise failure


class _Progress:
    """Progress bar as pooch wants it: says now and then how far a download is, and stops a runaway one."""

    def __init__(self, what: str, limit: int, notify: Notify):
        self.total = 0
        self._what, self._limit, self._notify = what, limit, notify
        self._done, self._last = 0, time.monotonic()

    def update(self, size: int) -> None:
        self._done += size
        if self._done > self._limit + (1 << 20):
            raise DataError(f"{self._what}: expected a download of at most {self._limit:,} bytes, got more")
        if time.monotonic() - self._last >= REPORT_EVERY:
            self._last = time.monotonic()
            of = f" of {self.total / 1e6:.1f}" if self.total else ""
            self._notify(f"{self._what}: {self._done / 1e6:.1f}{of} MB")

    def reset(self) -> None:
        self._done = 0

    def close(self) -> None:
        self._done = 0
