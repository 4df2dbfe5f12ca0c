"""Hours of random use under bad conditions. pytest does not collect this file; run it by hand::

    python tests/soak.py --seconds 3600

Rounds of several kinds follow each other, each in processes of its own, until the time is over:

==========  ======================================================================================
properties  random trees and values; checks that hold for all of them
threads     several threads share one tree, matrix and solver, and get the results of one thread
forks       a process that has used threads forks; parent and children continue
kills       a process that saves releases or compiles is killed; files must be complete or missing
memory      little memory is left: results are right, or there is an error, but never a crash
arguments   wrong arguments to every public function (``tests/fuzz``)
commands    random command lines (``tests/cli/test_random_commands.py``)
==========  ======================================================================================

A round that fails is named with the command that repeats it. The exit status is 1 if any failed.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parent
# Threads share trees of this size.
LARGE = 150_000
ROUND_SECONDS = 20.0
# A round that takes longer counts as hanging.
LONGEST = 900.0


# --------------------------------------------------------------------------- one random problem


class Problem:
    """A random tree with values, counts and variances, and checks of its results."""

    def __init__(self, seed: int, most: int, least: int = 2) -> None:
        import numpy as np
        from trees import named_shapes

        import gmtree as gm

        self.rng = rng = np.random.default_rng(seed)
        n = int(np.exp(rng.uniform(np.log(least), np.log(most))))
        shapes = named_shapes(n, seed % 1000)
        self.shape = str(rng.choice(sorted(shapes)))
        self.tree = tree = shapes[self.shape]
        self.counts = rng.poisson(3, tree.n_leaves)
        self.noisy = tree.aggregate(self.counts) + rng.normal(0, 3, tree.n)
        variances = [None, 2.5, {"node": rng.uniform(0.1, 9, tree.n)}]
        self.variance = variances[rng.integers(3)]
        self.post = gm.Consistency(tree, self.variance)
        self.G = gm.GenerationMatrix(tree)

    def results(self) -> list[Any]:
        """Results that must be equal in every thread and process."""
        tree, post, G = self.tree, self.post, self.G
        i = int(tree.leaves[0])
        return [
            post.project(self.noisy),
            post.project(self.noisy, nonnegative=True),
            post.project(self.noisy, nonnegative=True, integer=True),
            post.node_variance(),
            G.solve(self.noisy),
            G.T.solve(self.noisy),
            G @ self.noisy,
            tree.aggregate(self.counts),
            tree.lca(tree.leaves, i),
            tree.leaves_left_to_right,
        ]

    def check(self) -> None:
        """Check properties that hold for all trees and numbers."""
        import numpy as np

        import gmtree as gm

        tree, G, post = self.tree, self.G, self.post
        x, held, whole, variance, *_ = self.results()
        scale = max(1.0, float(np.abs(self.noisy).max()))
        assert gm.consistency_bias(tree, x) < 1e-8 * scale
        assert gm.consistency_bias(tree, held) < 1e-8 * scale
        assert gm.consistency_bias(tree, whole) == 0
        assert held[tree.leaves].min() >= 0
        assert whole.min() >= 0
        assert np.all(variance > 0)
        assert np.allclose(post.project(x), x, rtol=0, atol=1e-8 * scale)
        assert np.allclose(G @ G.solve(self.noisy), self.noisy, atol=1e-6 * scale)
        assert np.array_equal(tree.leaf_values(tree.aggregate(self.counts)), self.counts)
        self._check_other_forms()
        self._check_release()

    def _check_other_forms(self) -> None:
        import numpy as np

        import gmtree as gm

        tree = self.tree
        if tree.n <= 2000:
            M = gm.ConstraintMatrix(tree).tocsr()
            assert np.allclose(M.T @ tree.aggregate(self.counts), 0)
            assert gm.Tree.from_adjacency(gm.adjacency(tree)) == tree
            plain = gm.Tree.from_newick(tree.to_newick())
            assert sorted(plain.depth.tolist()) == sorted(tree.depth.tolist())
        live = self.post.track(self.noisy)
        i = int(self.rng.integers(tree.n))
        live.update(i, 7.5)
        changed = self.noisy.copy()
        changed[i] = 7.5
        expected = self.post.project(changed)[i]
        assert np.isclose(live.value(i), expected, rtol=1e-8, atol=1e-6)

    def _check_release(self) -> None:
        import numpy as np

        import gmtree as gm

        if self.tree.height > 1000:  # the default bound of counts is too small on such trees
            return
        budget = {"rho": "1/3"} if self.rng.random() < 0.5 else {"epsilon": "1/2"}
        released = gm.release(self.tree, self.counts, **budget, integer=True, nonnegative=True)
        assert released.values.min() >= 0
        assert gm.consistency_bias(self.tree, released.values) == 0
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "release.npz")
            released.save(path)
            again = gm.Release.load(path)
        assert np.array_equal(again.noisy, released.noisy)
        assert np.array_equal(again.values, released.values)


def same(found: list[Any], expected: list[Any]) -> bool:
    """Whether two lists of results agree to the last bit."""
    import numpy as np

    return all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))


# --------------------------------------------------------------------------- rounds


def properties(seed: int, end: float) -> None:
    k = 0
    while time.monotonic() < end or k == 0:
        Problem(seed + k, most=5000 if k % 8 else LARGE).check()
        k += 1


def threads(seed: int, end: float) -> None:
    problem = Problem(seed, most=2 * LARGE)
    expected = problem.results()
    wrong: list[str] = []

    def work() -> None:
        try:
            while time.monotonic() < end and not wrong:
                if not same(problem.results(), expected):
                    wrong.append("another result")
        except BaseException as error:
            wrong.append(repr(error))

    # The threads use a new object, so that they also fill its caches at the same time.
    fresh = Problem(seed, most=2 * LARGE)
    problem.tree, problem.post, problem.G = fresh.tree, fresh.post, fresh.G
    team = [threading.Thread(target=work) for _ in range(4)]
    for thread in team:
        thread.start()
    for thread in team:
        thread.join()
    assert not wrong, wrong


def forks(seed: int, end: float) -> None:
    problem = Problem(seed, most=2 * LARGE)
    expected = problem.results()
    first = True
    while time.monotonic() < end or first:
        first = False
        children = []
        for _ in range(3):
            child = os.fork()
            if child == 0:
                ok = False
                try:
                    ok = same(problem.results(), expected)
                finally:
                    os._exit(0 if ok else 1)
            children.append(child)
        assert same(problem.results(), expected)
        for child in children:
            assert os.waitpid(child, 0)[1] == 0, "a forked child failed"


SAVING = """
import sys
import gmtree as gm
tree = gm.shapes.grouped(20_000, rng=1)
release = gm.release(tree, [3] * tree.n_leaves, epsilon=1)
print("ready", flush=True)
while True:
    release.save(sys.argv[1])
"""


def kills(seed: int, end: float) -> None:
    import gmtree as gm

    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "release.npz")
        # In half of the rounds the process is killed while it writes machine code.
        cache = Path(folder, "numba") if chance.random() < 0.5 else None
        environment = {**os.environ, **({"NUMBA_CACHE_DIR": str(cache)} if cache else {})}
        first = True
        while time.monotonic() < end or first:
            first = False
            command = [sys.executable, "-c", SAVING, str(path)]
            with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
                if cache is None:
                    process.stdout.readline()
                time.sleep(chance.uniform(0, 0.5 if cache is None else 8))
                process.kill()
            if path.exists():
                assert gm.Release.load(path).tree.n_leaves == 20_000
        if cache:
            use = "import gmtree as gm; print(gm.reconcile(gm.shapes.star(3), [10.0, 4.0, 3.0]))"
            command = [sys.executable, "-c", use]
            done = subprocess.run(command, env=environment, capture_output=True, text=True)
            assert done.stdout.split() == ["[9.", "5.", "4.]"], done.stderr


def memory(seed: int, end: float) -> None:
    chance = random.Random(seed)
    Problem(seed, most=LARGE).check()  # compiles kernels before memory becomes scarce
    outcomes: Counter[str] = Counter()
    while time.monotonic() < end or not outcomes:
        seed += 1
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        left = int(2 ** chance.uniform(20, 28))
        limit = pages * resource.getpagesize() + left
        resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
        try:
            Problem(seed, most=10 * LARGE, least=LARGE).check()
            outcomes["right"] += 1
        except MemoryError:
            outcomes["MemoryError"] += 1
        except ValueError as error:
            if "memory" not in str(error):
                raise
            outcomes["refused"] += 1
        finally:
            unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
            resource.setrlimit(resource.RLIMIT_AS, unlimited)
    print(dict(outcomes), flush=True)


def arguments(seed: int, end: float) -> None:
    _pytest("fuzz/test_fuzz.py::test_several_wrong_arguments", seed, end)


def commands(seed: int, end: float) -> None:
    _pytest("cli/test_random_commands.py", seed, end)


def _pytest(test: str, seed: int, end: float) -> None:
    seconds = max(1.0, end - time.monotonic())
    settings = {"GMTREE_FUZZ_SECONDS": str(seconds), "GMTREE_FUZZ_SEED": str(100_000 * seed)}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    subprocess.run(
        [*command, str(TESTS / test)],
        env={**os.environ, **settings},
        cwd=TESTS.parent,
        check=True,
    )


ROUNDS = (properties, threads, forks, kills, memory, arguments, commands)


# --------------------------------------------------------------------------- the whole


def run_round(kind: str, seed: int, seconds: float) -> tuple[bool, str]:
    """Run one round in a new process; return whether it succeeded, and its output."""
    command = [sys.executable, __file__, "--round", kind, "--seed", str(seed)]
    command += ["--seconds", str(seconds)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    ) as process:
        try:
            said, _ = process.communicate(timeout=LONGEST)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return False, f"still running after {LONGEST:.0f} s"
    if process.returncode < 0:
        said += f"\nended by {signal.Signals(-process.returncode).name}"
    return process.returncode == 0, said


def soak(seconds: float, seed: int, kinds: list[str]) -> int:
    end, done, failed, k = time.monotonic() + seconds, Counter(), 0, 0
    while time.monotonic() < end:
        kind = kinds[k % len(kinds)]
        k, seed = k + 1, seed + 1
        began = time.monotonic()
        well, said = run_round(kind, seed, min(ROUND_SECONDS, max(1.0, end - began)))
        done[kind] += 1
        failed += not well
        state = "ok" if well else "FAILED"
        print(f"{kind:10} seed {seed:<8} {time.monotonic() - began:5.0f} s  {state}", flush=True)
        if not well:
            print(f"{said[-4000:]}\n  again: python tests/soak.py --round {kind} --seed {seed}")
    total = ", ".join(f"{count} of {kind}" for kind, count in done.items())
    print(f"{sum(done.values())} rounds in {seconds:.0f} s ({total}), {failed} failed.")
    return 1 if failed else 0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--seed", type=int, default=int(time.time()) % 10**6)
    names = {function.__name__: function for function in ROUNDS}
    parser.add_argument("--round", choices=names, help="only one round of this kind")
    parser.add_argument("--kinds", default=",".join(names), help="kinds of rounds to run")
    args = parser.parse_args()
    if args.round:
        sys.path[:0] = [str(TESTS)]
        names[args.round](args.seed, time.monotonic() + min(args.seconds, ROUND_SECONDS))
        return 0
    return soak(args.seconds, args.seed, args.kinds.split(","))


if __name__ == "__main__":
    sys.exit(main())
