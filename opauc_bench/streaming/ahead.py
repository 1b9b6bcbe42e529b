"""Reading in another thread, so that the next rows are there when the present ones have been learnt."""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator, Iterable
from typing import TypeVar

__all__ = ["ahead"]

_T = TypeVar("_T")
_WAITING = 2  # items that are read and not yet asked for
_SECONDS_PER_LOOK = 0.1


def ahead(items: Iterable[_T]) -> Generator[_T, None, None]:
    """Yield ``items``, the next few of which are made in another thread meanwhile; what it raises is raised here.

    Closing the generator ends the thread, as soon as the item that it waits for has come.
    """
    ready: queue.Queue[tuple[_T | None, BaseException | None]] = queue.Queue(_WAITING)
    closed = threading.Event()

    def put(item: _T | None, error: BaseException | None) -> None:
        while not closed.is_set():
            try:
                return ready.put((item, error), timeout=_SECONDS_PER_LOOK)
            except queue.Full:
                continue

    def read() -> None:
        try:
            for item in items:
                put(item, None)
                if closed.is_set():
                    return
            put(None, StopIteration())
        except BaseException as error:  # also SystemExit of a reader: it ends this thread only
            put(None, error)

    threading.Thread(target=read, name="reader", daemon=True).start()
    try:
        while True:
            item, error = ready.get()
            if isinstance(error, StopIteration):
                return
            if error is not None:
                raise error
            yield item  # type: ignore[misc]
    finally:
        closed.set()
