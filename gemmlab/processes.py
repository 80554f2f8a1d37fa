"""Work in other processes that ends with the one that started it."""

import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import active_children
from multiprocessing.context import BaseContext
from typing import Any

IGNORED = (signal.SIGINT, signal.SIG_IGN)


class Pool(ProcessPoolExecutor):
    """One whose `map` leaves work that is not done yet as it is when the caller is interrupted.
    That of Python cancels it, and then writes a traceback if its workers are ended."""

    def map(self, work: Callable, *iterables: Iterable) -> Iterator[Any]:
        futures = [self.submit(work, *given) for given in zip(*iterables, strict=False)]
        return (future.result() for future in futures)


@contextmanager
def workers(context: BaseContext | None = None) -> Iterator[Pool]:
    """One process for each core, started as `context` does. An error or Ctrl-C ends them at once. A
    terminal sends Ctrl-C to all processes; only the one that asked answers it."""
    others = set(active_children())
    with Pool(mp_context=context, initializer=signal.signal, initargs=IGNORED) as pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False)
            for worker in set(active_children()) - others:
                worker.terminate()
            raise
