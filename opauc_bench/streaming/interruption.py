"""Signals that end a training between two blocks of rows."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Iterator

from ..signals import ENDING, leave_terminal

__all__ = ["Interruption"]

_ONE_REQUEST = (
    1.0  # seconds; a shell and the system may both send SIGHUP when a terminal is closed, `timeout` two signals
)


class Interruption:
    """Ctrl-C, SIGTERM and SIGHUP raise KeyboardInterrupt while a row is waited for, never while one is learnt.

    A signal that comes more than a second after the first one does so at once.

    Attributes
    ----------
    busy : bool
        Whether a row is being learnt; after an exception, whether one may have been learnt in part.
    """

    def __init__(self):
        self.busy = False
        self._asked: float | None = None  # when

    def __enter__(self) -> Interruption:
        # A shell starts a job in the background with Ctrl-C ignored, and that has to stay.
        watched = [number for number in ENDING if signal.getsignal(number) != signal.SIG_IGN]
        self._before = {number: signal.signal(number, self._ask) for number in watched}
        return self

    def __exit__(self, *_) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _ask(self, number, _frame) -> None:
        leave_terminal(number)
        now = time.monotonic()
        if self._asked is None:
            self._asked = now
        if not self.busy or now - self._asked > _ONE_REQUEST:
            raise KeyboardInterrupt

    @contextlib.contextmanager
    def delayed(self) -> Iterator[None]:
        self.busy = True
        yield
        self.busy = False
        if self._asked is not None:
            raise KeyboardInterrupt
