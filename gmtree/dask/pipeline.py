"""The run of a computation: partitions tell, the driver solves what joins them, partitions write.

======================  =======================================================================
every partition: up     reads its rows; tells the sums of its whole children (a few numbers)
driver: solve           consistent values of the path nodes; what is elsewhere, per partition
some: enter             with bounds: hold rows that fall below zero, as long as there are any
every partition: down   an ordinary projection; writes its part of each level
every: finish           with whole numbers: hands out the units that the driver gave it
======================  =======================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gmtree.dask import tasks
from gmtree.dask.engine import Engine
from gmtree.dask.parquet import Partition
from gmtree.dask.result import ROOT, Levels, begin, commit, folder_of
from gmtree.dask.sources import refuse_unmatched
from gmtree.dask.tasks import Final, Problem, Told, Where
from gmtree.dask.top import Solution, Top, round_top


@dataclass
class Run:
    """One computation.

    Attributes
    ----------
    noise_of_top : function, optional
        For a release: noisy counts of the path nodes.
    """

    engine: Engine
    problem: Problem
    partitions: Sequence[Partition]
    noise_of_top: Callable[[Top], np.ndarray] | None = None

    def solve(self, manifest: dict[str, Any]) -> Levels:
        """Compute and write everything; the manifest, with the levels added, comes last."""
        problem = self.problem
        told: list[Told] = self._each("reading leaves", tasks.up)
        self.top = top = Top([t.ends for t in told])
        v, s = self._measured(told)
        levels = self._levels(told)
        self._refuse_unmatched(told)
        messages = [t.messages for t in told]
        plain = top.solve(v, s, messages)
        begin(Path(problem.out), [folder_of(name) for name in levels])
        held: list[str | None] = [None] * len(told)
        best, turns = plain, 0
        if problem.nonnegative:
            best, turns = self._hold(v, s, messages, held, plain)
        finals = self._finals(plain, best, held, v, s, levels)
        written = self._each("writing levels", tasks.down, finals)
        if problem.integer:
            written = self._finish(best.x, written, finals)
        files = {name: _files(written, level) for name, level in levels.items()}
        return commit(
            Path(problem.out),
            {
                **manifest,
                "level_columns": list(problem.levels),
                "value": problem.value,
                "nonnegative": problem.nonnegative,
                "integer": problem.integer,
                "turns": turns,
                "levels": {
                    name: {
                        "folder": folder_of(name),
                        "columns": self._columns(levels[name]),
                        "rows": rows,
                    }
                    for name, rows in files.items()
                },
            },
        )

    def _each(self, label: str, task: Callable[..., Any], more: Any = None) -> list[Any]:
        """Run a task for every partition, with further arguments."""
        extra = [()] * len(self.partitions) if more is None else [(x,) for x in more]
        pairs = zip(self.partitions, extra, strict=True)
        return self.engine.run(label, task, [(self.problem, p, *x) for p, x in pairs])

    def _measured(self, told: Sequence[Told]) -> tuple[np.ndarray, np.ndarray]:
        """Measurements of the path nodes and their variances."""
        s = self.top.by_node([t.variance for t in told])
        if self.noise_of_top is not None:
            return self.noise_of_top(self.top), s
        return self.top.by_node([t.value for t in told]), s

    def _levels(self, told: Sequence[Told]) -> dict[str, int]:
        """Levels to be written; none for the total if the first level has one node anyway."""
        names = {name: level for level, name in enumerate((ROOT, *self.problem.levels))}
        measured = self.problem.measured
        if self.top.sizes[1] == 1 and not (measured and measured[0] is not None):
            del names[ROOT]
        return names

    def _refuse_unmatched(self, told: Sequence[Told]) -> None:
        ends = [(t.ends.first, t.ends.last) for t in told]
        for level, source in enumerate(self.problem.measured):
            if level and source is not None:
                inside = sum(t.matched[level] for t in told)
                paths = np.zeros(self.top.n_paths, bool)
                for t, nodes in zip(told, self.top.path, strict=True):
                    paths[nodes[level][list(t.matched_paths[level])]] = True
                matched = inside + int(paths.sum())
                refuse_unmatched(source, self.problem.levels[:level], matched, ends)

    def _columns(self, level: int) -> list[str]:
        problem = self.problem
        more = [problem.names["noisy"]] if problem.noise is not None else []
        more += [problem.names["estimate"]] if problem.noise is not None and problem.keeps else []
        more += [problem.names["error"]] if problem.std_error else []
        return [*problem.levels[:level], problem.value, *more]

    # ------------------------------------------------------------------ bounds

    def _hold(
        self,
        v: np.ndarray,
        s: np.ndarray,
        messages: list[dict[Where, np.ndarray]],
        held: list[str | None],
        solution: Solution,
    ) -> tuple[Solution, int]:
        """Hold rows until none falls below zero; the solution then, and how many turns it took.

        Only partitions with a group that is below its least sum are entered.
        """
        top, turn = self.top, 0
        while entered := [p for p in range(len(held)) if self._falls(p, messages[p], solution)]:
            turn += 1
            outside = self._outside(solution, v, s)
            work = [(self.problem, self.partitions[p], outside[p], held[p], turn) for p in entered]
            found = self.engine.run(f"holding zeros, turn {turn}", tasks.enter, work)
            for p, (name, _, told) in zip(entered, found, strict=True):
                held[p], messages[p] = name, told
            if not sum(new for _, new, _ in found):
                break  # what seemed to fall was rounding
            solution = top.solve(v, s, messages)
        return solution, turn

    def _falls(self, p: int, messages: dict[Where, np.ndarray], solution: Solution) -> bool:
        groups = self.top.group[p].items()
        return any(solution.x[node] < messages[where][2] for where, node in groups)

    def _outside(self, solution: Solution, v: np.ndarray, s: np.ndarray) -> list[np.ndarray]:
        """What every partition is told: all that is elsewhere, and measurements of path nodes."""
        own = np.column_stack([np.where(np.isinf(s), 0, v), s])
        pairs = zip(self.top.outside(solution), self.top.path, strict=True)
        return [np.concatenate([out, own[nodes]], axis=2) for out, nodes in pairs]

    # ------------------------------------------------------------------ the end

    def _finals(
        self,
        plain: Solution,
        best: Solution,
        held: Sequence[str | None],
        v: np.ndarray,
        s: np.ndarray,
        levels: dict[str, int],
    ) -> list[Final]:
        top = self.top
        x = best.x
        if self.problem.nonnegative:
            x = np.maximum(x, 0)
        outside = self._outside(best, v, s)
        of_plain = outside if best is plain else self._outside(plain, v, s)
        error = np.sqrt(plain.variance)
        return [
            Final(
                outside[p],
                of_plain[p],
                top.at_paths(p, x),
                top.at_paths(p, plain.x),
                top.at_paths(p, error),
                held[p],
                top.skips_first(p),
                tuple(levels.values()),
            )
            for p in range(len(self.partitions))
        ]

    def _finish(self, x: np.ndarray, told: Sequence[Any], finals: Sequence[Final]) -> list[Any]:
        """Whole numbers: the driver's for path nodes and groups, the partitions' for the rest."""
        top = self.top
        whole = round_top(top, np.maximum(x, 0) if self.problem.nonnegative else x, told)
        work = []
        for p, partition in enumerate(self.partitions):
            groups = {where: int(whole[node]) for where, node in top.group[p].items()}
            work.append((self.problem, partition, finals[p], top.at_paths(p, whole), groups))
        return self.engine.run("writing whole numbers", tasks.finish, work)


def _files(written: Sequence[dict[int, int]], level: int) -> dict[str, int]:
    """Files of a level and their rows."""
    return {f"part-{p:05d}.parquet": rows[level] for p, rows in enumerate(written) if level in rows}
