"""Work in other processes that ends with the one that started it."""

import signal
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import active_children
from multiprocessing.context import BaseContext

IGNORED = (signal.SIGINT, signal.SIG_IGN)


@contextmanager
def workers(context: BaseContext | None = None) -> Iterator[ProcessPoolExecutor]:
    """One process for each core, started as `context` does. An error or Ctrl-C ends them at once. A
    terminal sends Ctrl-C to all processes; only the one that asked answers it. Work is submitted:
    what `map` has not done yet, Python cancels then, and writes a traceback."""
    others = set(active_children())
    with ProcessPoolExecutor(None, context, signal.signal, IGNORED) as pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False)
            for worker in set(active_children()) - others:
                worker.terminate()
            raise
