"""The steps of a run, in order.

======================  =======================================================================
every partition: up     reads its rows; reports the sums of complete children (a few numbers)
driver: solve           consistent values of boundary nodes; estimates of rows elsewhere
some: enter             with bounds: holds rows below zero at zero, until no row is below zero
every partition: down   projects its tree as usual; writes its nodes of each level
every: finish           with whole numbers: rounds to the sums that the driver chose
======================  =======================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gmtree.dask import tasks
from gmtree.dask.engine import Engine
from gmtree.dask.joint_tree import JointTree, Solution, Where, round_joint
from gmtree.dask.messages import Instructions, Problem, Report
from gmtree.dask.parquet import Partition, part_name
from gmtree.dask.result import ROOT, Result, begin, commit, folder_of
from gmtree.dask.sources import refuse_unmatched
from gmtree.dask.storage import Location


@dataclass
class Run:
    """A run of `reconcile` or `release` with Dask: its arguments, and its steps in order.

    Attributes
    ----------
    boundary_noise : array, optional
        For a release: noisy counts of the boundary nodes.
    joint : JointTree
        Known once all partitions have reported their ends.
    """

    engine: Engine
    problem: Problem
    partitions: Sequence[Partition]
    boundary_noise: np.ndarray | None = None
    joint: JointTree = field(init=False)

    def solve(self, manifest: dict[str, Any]) -> Result:
        """Compute and write all results, then add the levels to the manifest and write it."""
        problem = self.problem
        reports: list[Report] = self._each("reading leaves", tasks.up)
        self.joint = joint = JointTree([r.ends for r in reports])
        v, s = self._measured(reports)
        levels = self._levels()
        self._refuse_unmatched(reports)
        messages = [r.messages for r in reports]
        plain = joint.solve(v, s, messages)
        begin(problem.out, [folder_of(name) for name in levels])
        held: list[Location | None] = [None] * len(reports)
        best, turns = plain, 0
        if problem.nonnegative:
            best, turns = self._hold(v, s, messages, held, plain)
        instructions = self._instructions(plain, best, held, v, s, levels)
        written = self._each("writing levels", tasks.down, instructions)
        if problem.integer:
            written = self._finish(best.x, written, instructions)
        files = {name: _files(written, level) for name, level in levels.items()}
        return commit(
            problem.out,
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
                        "columns": problem.result_columns(levels[name]),
                        "rows": rows,
                    }
                    for name, rows in files.items()
                },
            },
        )

    def _each(self, label: str, task: Callable[..., Any], *more: Sequence[Any]) -> list[Any]:
        """Run a task for every partition, with its entry of each list in `more`."""
        rows = zip(self.partitions, *more, strict=True)
        return self.engine.run(label, task, [(self.problem, *row) for row in rows])

    def _measured(self, reports: Sequence[Report]) -> tuple[np.ndarray, np.ndarray]:
        """Measurements of the boundary nodes and their variances."""
        s = self.joint.by_node([r.variance for r in reports])
        if self.boundary_noise is not None:
            return self.boundary_noise, s
        return self.joint.by_node([r.value for r in reports]), s

    def _levels(self) -> dict[str, int]:
        """Levels to write: an unmeasured total is left out if the first level has one node."""
        names = {name: level for level, name in enumerate((ROOT, *self.problem.levels))}
        measured = self.problem.measured
        if self.joint.sizes[1] == 1 and not (measured and measured[0] is not None):
            del names[ROOT]
        return names

    def _refuse_unmatched(self, reports: Sequence[Report]) -> None:
        ends = [(r.ends.first, r.ends.last) for r in reports]
        for level, source in enumerate(self.problem.measured):
            if level and source is not None:
                inside = sum(r.matched[level] for r in reports)
                shared = np.zeros(self.joint.n_boundary, bool)
                for r, nodes in zip(reports, self.joint.boundary, strict=True):
                    shared[nodes[level][r.matched_boundary[level]]] = True
                matched = inside + int(shared.sum())
                refuse_unmatched(source, self.problem.levels[:level], matched, ends)

    # ------------------------------------------------------------------ bounds

    def _hold(
        self,
        v: np.ndarray,
        s: np.ndarray,
        messages: list[dict[Where, np.ndarray]],
        held: list[Location | None],
        solution: Solution,
    ) -> tuple[Solution, int]:
        """Hold rows until no row falls below zero; return the solution and the number of turns.

        Only partitions in which the sum of a group is too small for its rows run the task.
        """
        joint, turn = self.joint, 0
        while entered := [p for p in range(len(held)) if self._falls(p, messages[p], solution)]:
            turn += 1
            outside = self._outside(solution, v, s)
            work = [(self.problem, self.partitions[p], outside[p], held[p], turn) for p in entered]
            found = self.engine.run(f"holding zeros, turn {turn}", tasks.enter, work)
            for p, (name, _, sums) in zip(entered, found, strict=True):
                held[p], messages[p] = name, sums
            if not sum(new for _, new, _ in found):
                break  # the group was below its least sum by a rounding error only
            solution = joint.solve(v, s, messages)
        return solution, turn

    def _falls(self, p: int, messages: dict[Where, np.ndarray], solution: Solution) -> bool:
        groups = self.joint.group[p].items()
        return any(solution.x[node] < messages[where][2] for where, node in groups)

    def _outside(self, solution: Solution, v: np.ndarray, s: np.ndarray) -> list[np.ndarray]:
        """For every partition: estimates of rows elsewhere, and measurements of boundary nodes."""
        own = np.column_stack([np.where(np.isinf(s), 0, v), s])
        pairs = zip(self.joint.outside(solution), self.joint.boundary, strict=True)
        return [np.concatenate([out, own[nodes]], axis=2) for out, nodes in pairs]

    # ------------------------------------------------------------------ the end

    def _instructions(
        self,
        plain: Solution,
        best: Solution,
        held: Sequence[Location | None],
        v: np.ndarray,
        s: np.ndarray,
        levels: dict[str, int],
    ) -> list[Instructions]:
        joint = self.joint
        x = best.x
        if self.problem.nonnegative:
            x = np.maximum(x, 0)
        outside = self._outside(best, v, s)
        of_plain = outside if best is plain else self._outside(plain, v, s)
        error = np.sqrt(plain.variance)
        return [
            Instructions(
                outside[p],
                of_plain[p],
                x[nodes],
                plain.x[nodes],
                error[nodes],
                held[p],
                joint.skips_first(p),
                tuple(levels.values()),
            )
            for p, nodes in enumerate(joint.boundary)
        ]

    def _finish(
        self, x: np.ndarray, offers: Sequence[Any], instructions: Sequence[Instructions]
    ) -> list[Any]:
        """Round boundary nodes and groups here, and all other nodes in their partitions."""
        joint = self.joint
        whole = round_joint(joint, np.maximum(x, 0) if self.problem.nonnegative else x, offers)
        boundary = [whole[nodes] for nodes in joint.boundary]
        groups = [
            {where: int(whole[node]) for where, node in group.items()} for group in joint.group
        ]
        label = "writing whole numbers"
        return self._each(label, tasks.finish, instructions, boundary, groups)


def _files(written: Sequence[dict[int, int]], level: int) -> dict[str, int]:
    """Files of a level, with their numbers of rows."""
    return {part_name(p): rows[level] for p, rows in enumerate(written) if level in rows}
