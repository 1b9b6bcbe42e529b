"""Signals that end a program."""

from __future__ import annotations

import contextlib
import os
import signal
import stat

__all__ = ["ENDING", "interrupt", "leave_terminal"]

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # Ctrl-C, kill or a time limit, a closed terminal


def interrupt(number, _frame) -> None:
    """Handle a signal as Ctrl-C is handled."""
    leave_terminal(number)
    raise KeyboardInterrupt


def leave_terminal(number: int) -> None:
    """After SIGHUP, let output go nowhere: the terminal is gone, and each write to it would raise an OSError."""
    if number != signal.SIGHUP:
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        with contextlib.suppress(OSError):
            if stat.S_ISCHR(os.fstat(stream).st_mode):
                os.dup2(nowhere, stream)
    os.close(nowhere)
