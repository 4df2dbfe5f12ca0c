"""Errors name the first node that breaks a rule, and state the true limits."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import gmtree as gm
from gmtree import _validate as check

SHUFFLED = gm.Tree.from_parents([4, 2, 4, 2, -1])  # the root is node 4, canonical order is not 0..4
NAN = float("nan")

FIRST_OFFENDER = {
    "weights": (
        lambda: gm.GenerationMatrix(SHUFFLED, node_weight=[1, 2, 0, 0, 1]),
        "node 2 has weight 0",
    ),
    "edges": (lambda: gm.laplacian(SHUFFLED, edge=[1, 2, NAN, 0, NAN]), "node 2 has weight nan"),
    "lengths": (lambda: SHUFFLED.distance(0, 1, [1, NAN, 3, NAN, 5]), "node 1 is nan"),
    "values": (lambda: gm.reconcile(SHUFFLED, [1, 2, 3, NAN, np.inf]), "node 3 is nan"),
    "columns": (
        lambda: gm.queries.range_sum(SHUFFLED, [[1, 2]] * 3 + [[3, np.inf], [NAN, 1]], [[0, 1]]),
        "node 3 is inf",
    ),
    "unsigned": (
        lambda: SHUFFLED.leaf_values(np.array([1, 2, 2**63, 2**63, 1], np.uint64)),
        "node 2 does not",
    ),
    "overflow": (
        lambda: gm.GenerationMatrix(SHUFFLED).T.solve([0, 2**62, 2**62, 2**62, 0]),
        "at node 2 does not",
    ),
    "overflow, downward": (
        lambda: gm.GenerationMatrix(SHUFFLED).solve([0, 2**62, 2**62, 2**62, 0]),
        "at node 1 does not",
    ),
    "parents": (lambda: gm.Tree.from_parents([-1, 0, 9, -7]), "node 2 has parent 9"),
    "roots": (lambda: gm.Tree.from_parents([1, -1, 1, -1, -1]), "nodes 1 and 3 have no parent"),
    "cycle": (lambda: gm.Tree.from_parents([-1, 0, 3, 4, 2, 2]), "node 2 is its own ancestor"),
    "own parent": (lambda: gm.Tree.from_parents([-1, 1, 0, 3]), "node 1 is its own parent"),
    "labels": (
        lambda: gm.Tree.from_parents([-1, 0, 0, 0], labels=["a", "b", "a", "b"]),
        "node 2 repeats the label 'a'",
    ),
    "rows": (
        lambda: gm.Tree.from_levels(["a", "b", "a", "b"], ["x", "x", "x", "x"]),
        "row 2 repeats row 0",
    ),
    "edges twice": (
        lambda: gm.Tree.from_edges(["b", "c", "c", "b"], ["a", "a", "b", "c"]),
        "'c' is in rows 1 and 2",
    ),
    "merges": (
        lambda: gm.Tree.from_linkage([[0, 1, 1, 2], [0, 4, 1, 3], [0, 5, 1, 4]]),
        "row 1 joins 0 again",
    ),
    "clusters": (
        lambda: gm.Tree.from_linkage([[0, 1, 1, 2], [2, 9, 1, 3], [3, 99, 1, 4]]),
        "row 1 joins 2 and 9, but the clusters that exist there are 0 to 4",
    ),
    "ranges": (
        lambda: gm.queries.range_sum(SHUFFLED, np.ones(5), [[0, 1], [2, 1], [0, 9]]),
        r"row 1 is \[2, 1\]",
    ),
    "diagonal": (
        lambda: gm.GenerationMatrix.from_matrix([[1, 0, 0], [-1, 0, 0], [-1, 0, 0]]),
        "row 1 has 0",
    ),
    "two parents": (
        lambda: gm.GenerationMatrix.from_matrix([[1, 0, 0], [-1, 1, 0], [-1, -1, 1]]),
        "row 2 has 2",
    ),
    "structure": (
        lambda: gm.Tree.from_structure([[1, 0, 0], [-2, 1, 0], [-1, 0, 3]]),
        "row 1 holds 1 and -2",
    ),
    "right eigenvector": (
        lambda: gm.GenerationMatrix(SHUFFLED, node_weight=[1, 5, 3, 3, 3]).right_eigenvector(4),
        "nodes 4 and 2 both have weight 3",
    ),
    "left eigenvector": (
        lambda: gm.GenerationMatrix(SHUFFLED, node_weight=[1, 3, 3, 1, 3]).left_eigenvector(1),
        "nodes 1 and 2 both have weight 3",
    ),
    "contradictions": (
        lambda: gm.reconcile(SHUFFLED, [1, 1, 5, 1, 9], variance=[0] * 5),
        "node 2 is 5.0 but its children add up to 2.0",
    ),
    "variances": (lambda: gm.Consistency(SHUFFLED, [1, -1, 1, -2, 1]), "node 1 has -1"),
    "variances of levels": (
        lambda: gm.Consistency(SHUFFLED, {"level": [1, -1, -2]}),
        "level 2 has -1",
    ),
    "contradictions in tables": (
        lambda: gm.TableConsistency(SHUFFLED, {"sex": 2}, {("sex",): 0}).project(
            {("sex",): [[1, 1], [1, 1], [5, 5], [1, 1], [9, 9]]}
        ),
        "at node 2 differs by",
    ),
    "positive variances": (
        lambda: gm.Consistency(SHUFFLED, [1, np.inf, 1, 0, 1]).generation_matrix,
        "node 1 has inf",
    ),
    "bounds": (
        lambda: gm.reconcile(SHUFFLED, [1] * 5, lower=[0, np.inf, NAN]),
        r"node 1 has inf",
    ),
    "results": (
        lambda: gm.reconcile(gm.shapes.star(4), [1.7e308, -0.1e308, -1e308, 1.7e308]),
        "that of node 3 is too large",
    ),
    "updates": (
        lambda: gm.Consistency(SHUFFLED).track([1] * 5).update([3, 0, 1], [1, NAN, np.inf]),
        "that of node 0 is nan",
    ),
    "nodes": (lambda: SHUFFLED.distance([0, 9, -1], 1), "node numbers from 0 to 4, not 9"),
    "rows of numbers": (
        lambda: gm.GenerationMatrix.from_matrix([[1, 0, 0], [-1, NAN, 0], [-1, 0, np.inf]]),
        "row 1 holds nan",
    ),
    "rows of a Laplacian": (
        lambda: gm.Tree.from_laplacian([[1, -1, 0], [-1, 3, -1], [0, -1, 2]], root=0),
        "the sum of row 1 is not 0",
    ),
    "distances": (
        lambda: gm.Tree.from_distances([[0, 1, 5, 5], [1, 0, 5, 5], [5, 5, 0, 5], [5, 5, 5, 0]], 0),
        "node 2 has 0 neighbours",
    ),
    "masked columns": (
        lambda: SHUFFLED.leaf_values(np.ma.masked_equal([[1, 1]] * 3 + [[1, 0]] * 2, 0)),
        "entry 3, 1 is masked",
    ),
}


@pytest.mark.parametrize("name", FIRST_OFFENDER)
def test_an_error_names_the_first_node_that_breaks_the_rule(name):
    call, words = FIRST_OFFENDER[name]
    with pytest.raises((ValueError, TypeError), match=words):
        call()


def test_a_decomposition_into_numbers_that_lose_digits_is_refused():
    # The product of the ratios reaches 1e-310, where doubles have few digits left.
    G = gm.GenerationMatrix(gm.shapes.chain(3), node_weight=[1, 1e-155, 1e-155])
    with pytest.raises(ValueError, match=r"does not fit into float64.* at node 2"):
        G.diagonal_decomposition()
    G = gm.GenerationMatrix(gm.shapes.chain(3), node_weight=[1, 1e-150, 1e-150])
    alpha, _ = G.diagonal_decomposition()
    np.testing.assert_allclose(alpha[2], 1e-300)
    small = gm.GenerationMatrix(gm.shapes.chain(2), node_weight=np.float32([1, 1e-40]))
    with pytest.raises(ValueError, match="does not fit into float32"):
        small.diagonal_decomposition()


def test_rows_of_a_laplacian_add_up_to_zero_but_for_rounding():
    L = gm.laplacian(gm.shapes.chain(4)).toarray()
    for excess in (1e-6, -1e-6, 1e-8):
        wrong = L.copy()
        wrong[2, 2] += excess
        with pytest.raises(ValueError, match="add up to 0; the sum of row 2"):
            gm.Tree.from_laplacian(wrong, root=0)
    rounded = L.copy()
    rounded[2, 2] += 1e-12
    assert gm.Tree.from_laplacian(rounded, root=0) == gm.shapes.chain(4)


def test_errors_carry_their_argument_rule_and_node():
    with pytest.raises(ValueError, match="node 3 is nan") as caught:
        gm.reconcile(SHUFFLED, [1, 2, 3, NAN, np.inf])
    for error in (caught.value, pickle.loads(pickle.dumps(caught.value))):
        assert isinstance(error, gm.InputError)
        assert (error.argument, error.node) == ("noisy", 3)
        hint = "a node that was not measured has variance inf."
        assert error.rule == f"must be finite; node 3 is nan; {hint}"
        assert str(error) == f"Argument 'noisy' must be finite; node 3 is nan; {hint}"
    with pytest.raises(TypeError) as caught:
        gm.reconcile("tree", [1])
    assert isinstance(caught.value, gm.InputTypeError)
    assert (caught.value.argument, caught.value.node) == ("tree", None)
    with pytest.raises(OverflowError) as caught:
        gm.GenerationMatrix(SHUFFLED).T.solve([0, 2**62, 2**62, 2**62, 0])
    assert caught.value.node == 2


def test_callers_use_their_own_names_for_arguments_and_nodes():
    error = check.InputError(
        "variance['a']", "must be 1; ", check.Node(2), " and node 2 are {not}."
    )
    said = check.reworded(
        error,
        argument={"variance": "noise"},
        name=lambda node: f"series {node.number}",
        note=" (x)",
    )
    assert str(said) == "Argument 'noise['a']' must be 1; series 2 and node 2 are {not}. (x)"
    assert type(said) is gm.InputError
    named = gm.Tree.from_levels({"a": ["x", "y"]}, levels=["a"])
    with pytest.raises(gm.InputError, match=r"'noise\['a'\]' must not be negative"):
        gm.Consistency(named).node_variance(noise={"a": -1.0})
