"""Work in other processes that ends with the one that asked for it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import active_children
from multiprocessing.context import BaseContext


@contextmanager
def workers(context: BaseContext | None = None) -> Iterator[ProcessPoolExecutor]:
    """One process for each core, started as `context` does. An error or Ctrl-C ends them at once.

    A terminal sends Ctrl-C to all processes; only the one that asked answers it.
    """
    others = set(active_children())
    with ProcessPoolExecutor(mp_context=context, initializer=_ignore_interrupts) as pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in set(active_children()) - others:
                worker.terminate()
            raise


def _ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
