"""Sweeps: how they are cut, shared between threads, and used from threads and forks."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from trees import edge_weights, named_shapes, node_weights, parents, renumber

import gmtree as gm
from gmtree import _sweep
from gmtree.bench import trees as bench_trees

SEEDS = st.integers(0, 2**32 - 1)


def shared_tree(parent: np.ndarray, smallest: int = 1) -> gm.Tree:
    """A new tree, every level of which counts as long enough for several threads.

    Its layout is made once and kept, so the limit may go back to what it was.
    """
    tree = gm.Tree.from_parents(parent)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_sweep, "SMALLEST_SHARED_LEVEL", smallest)
        patch.setattr(_sweep, "BLOCKS", 4)
        patch.setattr(_sweep, "SMALLEST_BLOCK", 1)
        assert tree._layout is tree._layout
    return tree


def ranges_of(segment: _sweep.Segment) -> list[_sweep.Range]:
    start, stop, shared = segment
    return list(shared) if isinstance(shared, tuple) else [(start, stop)]


# --------------------------------------------------------------------------- cuts


@given(parents(max_n=60), st.integers(1, 12))
def test_segments_cover_all_but_the_root(parent, smallest):
    layout = shared_tree(parent, smallest)._layout
    segment_of = np.full(layout.n, -1)
    for k, segment in enumerate(layout.segments):
        for start, stop in ranges_of(segment):
            assert (segment_of[start:stop] == -1).all()
            segment_of[start:stop] = k
    above = layout.parent[1:].astype(int)
    assert (segment_of == -1).tolist() == [True] + [False] * (layout.n - 1)
    assert (segment_of[above] <= segment_of[1:]).all()
    assert (above < np.arange(1, layout.n)).all()
    for start, stop, shared in layout.segments:
        if isinstance(shared, tuple):
            for a, b in shared:
                assert layout.parent[a:b].min(initial=a) >= a - 1
        elif shared:
            assert (np.diff(layout.parent[start:stop].astype(int)) >= 0).all()
            assert layout.parent[start:stop].max() < start


@given(parents(max_n=60), st.integers(1, 12))
def test_joint_segments_cover_all_but_the_root(parent, smallest):
    canonical = gm.Tree.from_parents(parent).canonical()
    layout = shared_tree(bench_trees.depth_first(canonical), smallest)._layout
    visits = np.zeros(layout.n, int)
    for segment in layout.joint_segments:
        for start, stop, *leaves in ranges_of(segment):
            visits[start:stop] += 1
            if leaves:
                visits[slice(*leaves)] += 1
                assert (layout.parent[slice(*leaves)] >= start - 1).all()
                assert (layout.parent[slice(*leaves)] < stop).all()
    assert visits.tolist() == [0] + [1] * (layout.n - 1)


@given(parents(max_n=60), st.integers(1, 12))
def test_segments_of_trees_numbered_by_height(parent, smallest):
    tree = shared_tree(gm.Tree.from_parents(parent).canonical().parent, smallest)
    layout = tree._layout
    parent = tree.parent
    height = np.array(reference.heights(parent))[tree.order]
    sizes = np.bincount(height)
    enough = sizes[sizes >= smallest].sum() >= _sweep.SHARED_LEVELS_PER_SWEEP * smallest
    last = 1
    for start, stop, shared in layout.segments:
        assert start == last < stop
        last = stop
        levels = height[start:stop]
        # Leaves are swept by themselves, as is a level that threads share.
        assert (levels == 1).all() or not (levels == 1).any()
        if shared:
            whole = np.flatnonzero(height == levels[0])
            assert [start, stop] == [whole[0], whole[-1] + 1]
        assert shared == (enough and len(set(levels)) == 1 and stop - start >= smallest)
    assert last == tree.n
    assert layout.n == tree.n
    assert layout.n_inner == tree.n_internal


@given(parents(max_n=60), st.integers(1, 9))
def test_pieces_never_cut_a_family(parent, threads):
    layout = shared_tree(parent)._layout
    above = layout.parent
    for segment in layout.segments:
        start, stop, shared = segment
        portions = layout.portions(segment, threads)
        assert len(portions) <= threads
        pieces = [piece for portion in portions for piece in portion]
        if shared is not True:
            assert not shared or tuple(pieces) == shared
            continue
        assert pieces[0][0] == start
        assert pieces[-1][1] == stop
        for (a, b), (c, _) in zip(pieces, [*pieces[1:], (stop, stop)], strict=True):
            assert a < b == c
            if b < stop:
                assert above[b - 1] != above[b]
        families = [set(above[a:b].tolist()) for a, b in pieces]
        assert sum(map(len, families)) == len(set().union(*families))


def test_pieces_are_about_equal():
    layout = shared_tree(gm.shapes.complete(2, 12).parent)._layout
    sizes = [b - a for [(a, b)] in layout.portions(layout.segments[-1], 4)]
    assert len(sizes) == 4
    assert max(sizes) - min(sizes) <= 2


def test_threads_share_the_subtrees_of_trees_numbered_depth_first():
    for shape in (gm.shapes.complete(2, 12), gm.shapes.grouped(3000, rng=1)):
        layout = shared_tree(bench_trees.depth_first(shape), 16)._layout
        *above, inner, _ = layout.segments
        portions = layout.portions(inner, 2)
        sizes = [sum(b - a for a, b in portion) for portion in portions]
        assert sum(sizes) > 0.9 * layout.n_inner
        assert max(sizes) < 0.75 * sum(sizes)
        assert not any(shared for _, _, shared in above)


def test_threads_share_the_levels_of_trees_numbered_level_by_level():
    shape = gm.shapes.random_recursive(3000, rng=1)
    met = [0]
    for i in met:
        met.extend(shape.children(i))
    tree = shared_tree(renumber(shape.parent, np.argsort(met)), 16)
    assert not tree.is_canonical
    assert sum(shared is True for _, _, shared in tree._layout.segments) > 5


def test_a_star_cannot_be_cut():
    layout = shared_tree(gm.shapes.star(50).parent)._layout
    assert layout.portions((1, 50, True), 4) == [[(1, 50)]]


def test_number_of_threads():
    assert _sweep.usable_threads(3) == 3
    assert 1 <= _sweep.usable_threads(None) <= _sweep.MOST_THREADS


# --------------------------------------------------------------------------- threads agree


def results(tree: gm.Tree, node, edge, v: np.ndarray, threads: int) -> list[np.ndarray]:
    G = gm.GenerationMatrix(tree, node, edge, threads=threads)
    return [G @ v, G.T @ v, G.solve(v), G.T.solve(v)]


@given(
    parents(max_n=60),
    node_weights,
    edge_weights,
    st.sampled_from([(), (2,)]),
    st.sampled_from([np.float64, np.float32, np.int64]),
    SEEDS,
)
def test_threads_give_the_same_bits(parent, node, edge, columns, dtype, seed):
    tree = shared_tree(parent)
    node, edge = node(tree.n), edge(tree.n)
    v = (np.random.default_rng(seed).standard_normal((tree.n, *columns)) * 1000).astype(dtype)
    alone = results(tree, node, edge, v, 1)
    unshared = results(gm.Tree.from_parents(parent), node, edge, v, 1)
    for threads in (2, 3):
        together = results(tree, node, edge, v, threads)
        for a, b, c in zip(alone, together, unshared, strict=True):
            assert a.dtype == b.dtype
            assert a.tobytes() == b.tobytes() == c.tobytes()


@pytest.mark.parametrize("n", [1, 2, 3000])
def test_threads_give_the_same_bits_on_named_shapes(n):
    for name, shape in named_shapes(n).items():
        v = np.random.default_rng(1).standard_normal(shape.n)
        tree = shared_tree(shape.parent, smallest=16)
        alone, together = results(tree, 2.0, v, v, 1), results(tree, 2.0, v, v, 4)
        for a, b in zip(alone, together, strict=True):
            assert a.tobytes() == b.tobytes(), name


def test_long_levels_are_shared_without_being_asked():
    tree = gm.shapes.complete(4, 11)
    assert any(shared for _, _, shared in tree._layout.segments)
    v = np.random.default_rng(1).standard_normal(tree.n)
    expected = results(tree, None, None, v, 1)
    for found in (results(tree, None, None, v, None), results(tree, None, None, v, 3)):
        for a, b in zip(expected, found, strict=True):
            assert a.tobytes() == b.tobytes()
    G = gm.GenerationMatrix(tree, threads=3)
    np.testing.assert_array_equal(G.solve(np.ones(tree.n, int)), tree.depth)


def test_an_error_in_a_thread_is_not_lost():
    def fail(start, stop):
        raise RuntimeError(f"{start}")

    layout = shared_tree(gm.shapes.complete(2, 6).parent)._layout
    segment = layout.segments[-1]
    with _sweep.team(layout, 2) as run, pytest.raises(RuntimeError):
        run(fail, (), segment)
    [only_last] = layout.portions(segment, 2)[-1]

    def fail_elsewhere(start, stop):
        if start == only_last[0]:
            raise RuntimeError("in the other thread")

    with _sweep.team(layout, 2) as run, pytest.raises(RuntimeError, match="other thread"):
        run(fail_elsewhere, (), segment)


@pytest.mark.parametrize("possible", [0, 1, 2])
def test_without_memory_for_threads_the_work_is_done_alone(monkeypatch, possible):
    """If only the first few threads can be started, these finish, and nothing is done twice."""
    before = threading.active_count()
    start, left = threading.Thread.start, [possible]

    def start_if_possible(thread):
        if not left[0]:
            raise RuntimeError("can't start new thread")
        left[0] -= 1
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_if_possible)
    tree = shared_tree(gm.shapes.complete(3, 8).parent, smallest=16)
    v = np.random.default_rng(1).standard_normal(tree.n)
    for found, expected in zip(
        results(tree, None, None, v, 4), results(tree, None, None, v, 1), strict=True
    ):
        assert found.tobytes() == expected.tobytes()
    done = []
    left[0] = possible
    _sweep.share(3, done.append, range(10))
    assert done == list(range(10))
    assert threading.active_count() == before


# --------------------------------------------------------------------------- many users


NAMES = ("order", "rank", "node_height", "depth", "subtree_size", "child_count", "leaves")


def ask_everything(tree: gm.Tree, G: gm.GenerationMatrix, v: np.ndarray) -> list[np.ndarray]:
    answers = [getattr(tree, name) for name in NAMES]
    answers += [G @ v, G.T @ v, G.solve(v), G.T.solve(v), tree.aggregate(v[: tree.n_leaves])]
    answers += [tree.children(tree.root), np.array(tree.path(tree.n - 1))]
    answers += [np.array(tree.node(tree.n - 1)), G.tocsr().indices]
    return answers


@pytest.mark.parametrize("shuffled", [False, True])
def test_one_tree_in_many_threads(shuffled):
    """Threads that ask a tree for the same cached property at the same time get equal results."""
    users = 8
    parent = gm.shapes.random_recursive(2000, rng=5).canonical().parent
    if shuffled:
        parent = renumber(parent, np.random.default_rng(5).permutation(parent.size))
    labels = np.arange(parent.size)
    v = np.random.default_rng(5).standard_normal(parent.size)
    edge = np.random.default_rng(6).uniform(0.5, 1, parent.size)

    def new() -> tuple[gm.Tree, gm.GenerationMatrix]:
        tree = gm.Tree.from_parents(parent, labels=labels)
        return tree, gm.GenerationMatrix(tree, None, edge, threads=2)

    expected = [a.tobytes() for a in ask_everything(*new(), v)]
    with ThreadPoolExecutor(users) as pool:
        for _ in range(10):
            tree, G = new()
            start = threading.Barrier(users)

            def ask(tree=tree, G=G, start=start) -> list[np.ndarray]:
                start.wait(timeout=60)
                return ask_everything(tree, G, v)

            for future in [pool.submit(ask) for _ in range(users)]:
                assert [a.tobytes() for a in future.result()] == expected


FORK = """
import os, sys, warnings
import numpy as np
import gmtree as gm

tree = gm.shapes.complete(4, 10)
G = gm.GenerationMatrix(tree, threads=3)
v = np.ones(tree.n)
expected = G.solve(v), G.T.solve(v)
warnings.simplefilter("ignore")  # newer Pythons warn about the threads of other libraries
child = os.fork()
if child == 0:
    right = np.array_equal(G.solve(v), expected[0]) and np.array_equal(G.T.solve(v), expected[1])
    os._exit(0 if right else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert np.array_equal(G.solve(v), expected[0])
print("both agree")
"""


if hasattr(os, "fork"):

    def test_a_fork_goes_on_working():
        done = subprocess.run(
            [sys.executable, "-c", FORK], capture_output=True, text=True, timeout=120, check=False
        )
        assert done.stdout == "both agree\n", done.stderr
