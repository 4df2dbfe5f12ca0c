"""Tasks on Dask: on the cluster of the current client, or on the scheduler of this process.

No other module depends on Dask. Another engine needs a class with the public methods of `Engine`.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from gmtree import _memory
from gmtree import _validate as check
from gmtree._progress import Progress

# A worker needs memory for the interpreter, libraries, and the read-ahead of Arrow.
_IDLE_BYTES = 260 << 20
_USABLE = 0.7


class Engine:
    """Runs one function for many arguments, and knows how much memory each call may use."""

    def __init__(self, client: Any = None) -> None:
        check.optional("dask", "dask", "computing with Dask")
        self._client = _current_client() if client is None else client

    def memory(self) -> float:
        """Bytes that one task may use."""
        if self._client is None:
            return _USABLE * 2 * _memory.limit() / _threads()
        try:
            info = self._client.scheduler_info(n_workers=-1)
        except TypeError:  # older versions always list all workers
            info = self._client.scheduler_info()
        workers = info["workers"].values()
        most = [
            (_USABLE * w["memory_limit"] - _IDLE_BYTES) / max(1, w["nthreads"])
            for w in workers
            if w.get("memory_limit")
        ]
        return max(min(most), 1.0) if most else _USABLE * 2 * _memory.limit()

    def run(self, label: str, task: Callable[..., Any], arguments: Sequence[tuple]) -> list[Any]:
        """Return the results in the order of the arguments."""
        found: list[Any] = [None] * len(arguments)
        for k, result in self.each(label, task, arguments):
            found[k] = result
        return found

    def each(
        self, label: str, task: Callable[..., Any], arguments: Sequence[tuple]
    ) -> Iterator[tuple[int, Any]]:
        """Yield (number of the argument, result) as results arrive, each number once."""
        calls = [partial(task, *arg) for arg in arguments]
        how = self._local if self._client is None else self._distributed
        with Progress(len(calls), label) as progress:
            for k, result in how(label, calls):
                progress.advance()
                yield k, result

    def _distributed(self, label: str, calls: Sequence[partial]) -> Iterator[tuple[int, Any]]:
        from distributed import as_completed

        name = f"gmtree-{label.replace(' ', '-')}-{uuid.uuid4().hex[:8]}"
        futures = [
            self._client.submit(call, key=f"{name}-{k}", pure=False) for k, call in enumerate(calls)
        ]
        number = {future.key: k for k, future in enumerate(futures)}
        try:
            for future, result in as_completed(futures, with_results=True):
                if future.cancelled():
                    raise RuntimeError(
                        f"The Dask cluster cancelled the tasks of this run while {label}. Another "
                        "call of client.restart() or client.cancel() does that."
                    )
                yield number[future.key], result
        finally:
            self._client.cancel(futures)

    def _local(self, label: str, calls: Sequence[partial]) -> Iterator[tuple[int, Any]]:
        import dask
        from dask.base import get_scheduler

        get = get_scheduler() or dask.threaded.get
        several = 1 if get is dask.get else _threads()
        # Submit a few tasks at a time, so that the caller gets results soon after they arrive.
        for start in range(0, len(calls), several):
            some = calls[start : start + several]
            graph = {f"{label}-{start + k}": (call,) for k, call in enumerate(some)}
            yield from enumerate(get(graph, list(graph)), start)


def _current_client() -> Any:
    """Return the client that Dask would use, or None."""
    try:
        from distributed import get_client
    except ImportError:
        return None
    try:
        return get_client()
    except ValueError:
        return None


def _threads() -> int:
    import dask

    if dask.config.get("scheduler", None) in ("sync", "synchronous", "single-threaded"):
        return 1
    return int(dask.config.get("num_workers", None) or os.cpu_count() or 1)
