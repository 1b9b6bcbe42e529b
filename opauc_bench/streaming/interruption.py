"""Signals that end a training between two blocks of rows."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator

__all__ = ["Interruption"]


class Interruption:
    """Ctrl-C, SIGTERM and SIGHUP raise KeyboardInterrupt while a row is waited for, never while one is learnt.

    A second one does so at once.

    Attributes
    ----------
    busy : bool
        Whether a row is being learnt; after an exception, whether one may have been learnt in part.
    """

    def __init__(self):
        self.busy = self._asked = False

    def __enter__(self) -> Interruption:
        # A shell starts a job in the background with Ctrl-C ignored, and that has to stay.
        # A closed terminal sends SIGHUP.
        ends = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        watched = [number for number in ends if signal.getsignal(number) != signal.SIG_IGN]
        self._before = {number: signal.signal(number, self._ask) for number in watched}
        return self

    def __exit__(self, *_) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _ask(self, *_) -> None:
        again, self._asked = self._asked, True
        if again or not self.busy:
            raise KeyboardInterrupt

    @contextlib.contextmanager
    def delayed(self) -> Iterator[None]:
        self.busy = True
        yield
        self.busy = False
        if self._asked:
            raise KeyboardInterrupt
