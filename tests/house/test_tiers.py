"""Interpreted kernels give the bits of compiled ones, and run on small trees for a short time."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from processes import run, run_tests

from gmtree import _sweep
from gmtree._kernels import _jit, projection

TESTS = Path(__file__).parents[1]
BOTH_TIERS = {
    "PYTHONPATH": f"{TESTS.parent}:{TESTS}",
    # Machine code that other tests need as well is compiled once.
    "NUMBA_CACHE_DIR": os.environ.get("NUMBA_CACHE_DIR"),
}


# --------------------------------------------------------------------------- the same bits

TOUR = """
import numpy as np
import both_tiers
from gmtree.cli import warm

both_tiers.pytest_configure()
canonical, shuffled = warm.NUMBERINGS
all_types, one_type = warm.DTYPES, [np.float64]
sweeps = [warm.matrices, warm.consistency, warm.large_families]
# Types, columns and numberings are independent of each other, so not all are combined.
for make, stops, warm.DTYPES, warm.COLUMNS in (
    (canonical, sweeps, all_types, [()]),
    (canonical, warm.STOPS, one_type, [(2,)]),
    (shuffled, [warm.trees, warm.matrices], one_type, [()]),
):
    for stop in stops:
        stop(make())
missed = {kernel.py_func for kernel in warm.dispatchers()} - set(both_tiers.compiled)
print(*(kernel.__name__ for kernel in missed))
"""


def test_all_kernels_give_the_same_bits_in_both_tiers():
    # Other kernels call `renew`, `up` and `down`, which gives them machine code.
    assert set(run("-c", TOUR, **BOTH_TIERS).split()) <= {"renew", "up", "down"}


def test_properties_hold_in_both_tiers():
    """With numbers of all types and sizes: zeros, infinities, sums that overflow."""
    run_tests(
        *("-p", "both_tiers"),
        str(TESTS / "consistency" / "test_projection.py"),
        str(TESTS / "consistency" / "test_missing_and_extreme.py"),
        str(TESTS / "matrix" / "test_matrix.py"),
        **BOTH_TIERS,
    )


def test_a_selection_of_the_tests_runs_as_users_run_it():
    run_tests(
        *(str(TESTS / name) for name in ("tree/test_tree.py", "consistency/test_projection.py")),
        str(TESTS / "frames" / "test_readers.py"),
        GMTREE_ALWAYS_COMPILE="0",
        NUMBA_CACHE_DIR=BOTH_TIERS["NUMBA_CACHE_DIR"],
    )


# --------------------------------------------------------------------------- the choice of a tier


def add_one(x, half):
    """Add 1 to all numbers; `half` becomes half of the last."""
    for i in range(x.size):
        x[i] += 1
        half[0] = x[i] / 2
    return x.size


@pytest.fixture
def kernel(monkeypatch):
    """A kernel that was not used before; no machine code of it is on disk."""
    monkeypatch.setattr(_jit, "_always_compile", False)
    monkeypatch.setattr(_jit, "_compiled", lambda function: _jit.njit(**_jit._OPTIONS)(function))
    return _jit.kernel(add_one)


def check(kernel, n: int = 5) -> None:
    x, half = np.arange(n), np.zeros(1)
    assert kernel(x, half) == n
    assert type(kernel(x, half)) is int
    np.testing.assert_array_equal(x, np.arange(n) + 2)
    assert half[0] == (n + 1) / 2


def test_small_calls_are_interpreted(kernel):
    check(kernel)
    assert not kernel.signatures


def test_a_large_array_is_compiled(kernel):
    check(kernel, 10**5)
    assert len(kernel.signatures) == 1


def test_the_environment_switches_tiers_off(kernel, monkeypatch):
    use = "from gmtree._kernels import _jit; print(_jit._always_compile)"
    assert run("-c", use, GMTREE_ALWAYS_COMPILE="1") == "True\n"
    assert run("-c", use, GMTREE_ALWAYS_COMPILE="0") == "False\n"
    assert run("-c", use, GMTREE_ALWAYS_COMPILE=None) == "False\n"
    monkeypatch.setattr(_jit, "_always_compile", True)
    check(kernel)
    assert len(kernel.signatures) == 1


@pytest.mark.parametrize("reads", [1, 2, 4, 7, 9])
def test_a_kernel_is_compiled_when_its_time_is_up(kernel, monkeypatch, reads):
    """If time is up during a call, all changes of that call are undone."""
    clock = count()
    monkeypatch.setattr(_jit, "perf_counter", lambda: next(clock))
    monkeypatch.setattr(_jit, "_BEFORE_COMPILING", reads)
    check(kernel)
    assert len(kernel.signatures) == 1


def to_whole(x, out):
    """out = x as whole numbers."""
    for i in range(x.size):
        out[i] += np.int64(x[i])


def test_numbers_that_python_refuses_are_left_to_the_machine(kernel):
    """Python has no whole number for infinity."""
    tiered, machine = _jit.kernel(to_whole), _jit.njit(to_whole)
    x, found, expected = np.array([2.0, np.inf]), *np.ones((2, 2), int)
    tiered(x, found)
    machine(x, expected)
    np.testing.assert_array_equal(found, expected)
    assert found[0] == 3


# --------------------------------------------------------------------------- threads


def test_threads_that_share_a_sweep_interpret_nothing(kernel):
    """A twin that runs out of time would undo what other threads have written."""
    shared = _sweep.Layout(np.zeros(9, np.uint64), None, 1, ((1, 9, True),))
    x, half = np.arange(9), np.zeros((9, 1))
    with _sweep.team(shared, 3) as run:
        run(lambda start, stop: kernel(x[start:stop], half[start]), (), (1, 9, True), True)
    np.testing.assert_array_equal(x, [0, *range(2, 10)])
    assert len(kernel.signatures) == 1


def test_threads_wait_for_the_twins_of_helpers(monkeypatch):
    """Two threads may be the first to call kernels of one module."""
    monkeypatch.setattr(_jit, "_twin_globals", {})
    plain, others = _jit._with_machine_numbers, []

    def is_complete() -> bool:
        known = _jit._twin(projection.up_leaves.py_func).__globals__
        return not any(hasattr(value, "py_func") for value in known.values())

    with ThreadPoolExecutor(1) as pool:

        def interrupted(constant):
            if not others:  # The twin of the first helper is just being made.
                others.append(pool.submit(is_complete))
                wait(others, timeout=0.2)
            return plain(constant)

        monkeypatch.setattr(_jit, "_with_machine_numbers", interrupted)
        assert is_complete()
        assert others[0].result()
