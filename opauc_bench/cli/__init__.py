"""The command line: one short function per command. Heavy modules are imported inside the commands that need them."""

from __future__ import annotations

import atexit
import codecs
import errno
import gc
import os
import re
import signal
import sys

import typer

from ..errors import OpaucBenchError
from ..signals import ENDING, interrupt
from .app import app

# Each adds its commands to the app; help lists them in this order.
from . import experiments, models, listings  # noqa: F401  # isort: skip

__all__ = ["app", "main"]

_PLAIN = {"±": "+-", "•": "*", "◦": "o", "≈": "=", "…": "...", "–": "-", "—": "-", "×": "x", "λ": "lambda", "η": "eta"}


def main() -> None:
    """Run the command line; errors that users can correct are printed without a traceback."""
    _collect_rarely()
    _replace_closed_streams()
    codecs.register_error("opauc-bench", in_plain_characters)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="opauc-bench")  # type: ignore[union-attr]
    for number in ENDING:  # as Ctrl-C: temporary files are removed
        if signal.getsignal(number) is signal.SIG_DFL:  # under nohup a closed terminal is ignored
            signal.signal(number, interrupt)
    try:
        code = app(standalone_mode=False)
        print(end="", flush=True)  # here, and not at exit, a closed pipe is noticed
    except OpaucBenchError as error:
        print(f"error: {error.message}", file=sys.stderr)
        if error.hint:
            print(f"  try: {error.hint}", file=sys.stderr)
        code = error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        print("interrupted", file=sys.stderr)
        code = 130
    except (BrokenPipeError, SystemExit) as error:
        # The reader, such as head, has closed the pipe, which typer turns into an exit with 1.
        if not isinstance(error, BrokenPipeError) and not isinstance(error.__context__, BrokenPipeError):
            raise
        # Python must not complain about it a second time at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except OSError as error:
        if error.errno != errno.ENOSPC or error.filename is not None:
            raise
        # The file that the output was sent to: errors of our files have names.
        print("error: the output cannot be written: no space left on device", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    except MemoryError as error:
        print(f"error: not enough memory{f': {error}' if str(error) else ''}", file=sys.stderr)
        print("  try: fewer or smaller inputs at a time, or a machine with more memory", file=sys.stderr)
        code = 1
    except Exception as error:
        if not hasattr(error, "exit_code") or not hasattr(error, "show"):
            raise
        error.show()
        code = error.exit_code
    sys.exit(code or 0)


def in_plain_characters(error: UnicodeError) -> tuple[str, int]:
    """Replace characters that the encoding of a terminal lacks; the marks of a table stay different."""
    assert isinstance(error, UnicodeEncodeError)
    text = error.object[error.start : error.end]
    digits = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
    text = re.sub("[⁻⁰¹²³⁴-⁹]+", lambda exponent: "^" + exponent[0].translate(digits), text)
    return "".join(_PLAIN.get(one, one if one.isascii() else "?") for one in text), error.end


def _replace_closed_streams() -> None:
    """Let /dev/null take the place of standard output and error where the shell has closed them (``>&-``).

    Libraries flush both, and without one on standard error messages would be printed on standard output.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - to the end of the process


def _collect_rarely() -> None:
    """Let the garbage collector look at the imported modules rarely, and not at exit.

    They have some 100,000 objects and no garbage: to look at them takes .1 s during imports and .25 s at exit.
    """
    gc.set_threshold(10_000, 20, 100)
    atexit.register(gc.freeze)
