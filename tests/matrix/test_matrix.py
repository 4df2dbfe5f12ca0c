"""Generation, constraint and mapping matrices against dense ones, in every form of input."""

from __future__ import annotations

import numpy as np
import pytest
import reference
import scipy.sparse
import scipy.sparse.linalg
from hypothesis import given
from hypothesis import strategies as st
from trees import (
    all_parents,
    edge_weights,
    named_shapes,
    node_weights,
    parents,
    renumber,
    trees,
)

import gmtree as gm

SEEDS = st.integers(0, 2**32 - 1)
COLUMNS = st.sampled_from([(), (0,), (1,), (3,)])
MOST = 2**63 - 1


def close(found: np.ndarray, expected: np.ndarray, tolerance: float = 1e-9) -> None:
    """Equal up to a tolerance relative to the largest number."""
    assert found.shape == expected.shape
    scale = max(1.0, float(np.abs(expected).max(initial=0)))
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * scale)


def four_operations(G: gm.GenerationMatrix) -> dict:
    return {
        "@": lambda v, **options: G @ v,
        "T @": lambda v, **options: G.T @ v,
        "solve": G.solve,
        "T solve": G.T.solve,
    }


def four_dense(D: np.ndarray) -> dict:
    return {
        "@": lambda v: D @ v,
        "T @": lambda v: D.T @ v,
        "solve": lambda v: np.linalg.solve(D, v),
        "T solve": lambda v: np.linalg.solve(D.T, v),
    }


# --------------------------------------------------------------------------- against dense


@given(parents(), node_weights, edge_weights, COLUMNS, SEEDS)
def test_generation_matrix_is_the_dense_one(parent, node, edge, columns, seed):
    tree = gm.Tree.from_parents(parent)
    node, edge = node(tree.n), edge(tree.n)
    G = gm.GenerationMatrix(tree, node, edge)
    D = reference.generation(parent, node, edge)
    v = np.random.default_rng(seed).standard_normal((tree.n, *columns))
    np.testing.assert_array_equal(G.toarray(), D)
    np.testing.assert_array_equal(G.T.toarray(), D.T)
    found, dense = four_operations(G), four_dense(D)
    for name in found:
        before = v.copy()
        close(found[name](v), dense[name](v))
        np.testing.assert_array_equal(v, before)


@given(parents(), node_weights, edge_weights, COLUMNS, SEEDS)
def test_solve_undoes_the_product(parent, node, edge, columns, seed):
    tree = gm.Tree.from_parents(parent)
    G = gm.GenerationMatrix(tree, node(tree.n), edge(tree.n))
    v = np.random.default_rng(seed).standard_normal((tree.n, *columns))
    close(G @ G.solve(v), v)
    close(G.solve(G @ v), v)
    close(G.T @ G.T.solve(v), v)
    close(G.T.solve(G.T @ v), v)
    whole = np.random.default_rng(seed).integers(-(10**6), 10**6, v.shape)
    S = gm.GenerationMatrix(tree)
    np.testing.assert_array_equal(S @ S.solve(whole), whole)
    np.testing.assert_array_equal(S.T @ S.T.solve(whole), whole)


@pytest.mark.parametrize("n", range(1, 7))
def test_all_small_trees(n):
    rng = np.random.default_rng(n)
    v = rng.standard_normal(n)
    for ordered in all_parents(n):
        for parent in (ordered, renumber(ordered, rng.permutation(n))):
            G = gm.GenerationMatrix(gm.Tree.from_parents(parent))
            D = reference.generation(parent)
            np.testing.assert_array_equal(G.toarray(), D)
            found, dense = four_operations(G), four_dense(D)
            for name in found:
                close(found[name](v), dense[name](v))


def test_named_shapes():
    rng = np.random.default_rng(0)
    for tree in named_shapes(30).values():
        node, edge = rng.uniform(1, 2, tree.n), rng.uniform(0.5, 1, tree.n)
        v = rng.standard_normal((tree.n, 2))
        D = reference.generation(tree.parent, node, edge)
        found, dense = four_operations(gm.GenerationMatrix(tree, node, edge)), four_dense(D)
        for name in found:
            close(found[name](v), dense[name](v))


@given(parents())
def test_lower_triangular_in_canonical_numbering(parent):
    G = gm.GenerationMatrix(gm.Tree.from_parents(parent).canonical()).toarray()
    np.testing.assert_array_equal(G, np.tril(G))
    np.testing.assert_array_equal(np.diag(G), 1)


@given(parents())
def test_sizes_depths_and_counts(parent):
    tree = gm.Tree.from_parents(parent)
    G, ones = gm.GenerationMatrix(tree), np.ones(tree.n, np.int64)
    np.testing.assert_array_equal(G.solve(ones), tree.depth)
    np.testing.assert_array_equal(G.T.solve(ones), tree.subtree_size)
    np.testing.assert_array_equal(ones - G.T @ ones, tree.child_count)


@given(trees(), st.data())
def test_aggregate_is_a_solve(tree, data):
    """BuildTree is G.T.solve of the leaf values with zeros elsewhere."""
    x = np.random.default_rng(data.draw(SEEDS)).integers(0, 100, tree.n_leaves)
    H = gm.MappingMatrix(tree.leaves, tree.n)
    np.testing.assert_array_equal(tree.aggregate(x), gm.GenerationMatrix(tree).T.solve(H.T @ x))


# --------------------------------------------------------------------------- adjointness


def dot_test(A, rng) -> None:
    """<A u, v> = <u, A.T v>."""
    rows, columns = A.shape
    u, v = rng.standard_normal(columns), rng.standard_normal(rows)
    assert (A @ u) @ v == pytest.approx(u @ (A.T @ v), rel=1e-9, abs=1e-9)


@given(parents(), node_weights, edge_weights, SEEDS)
def test_transposes_are_adjoint(parent, node, edge, seed):
    rng = np.random.default_rng(seed)
    tree = gm.Tree.from_parents(parent)
    G = gm.GenerationMatrix(tree, node(tree.n), edge(tree.n))
    index = rng.permutation(tree.n)[: rng.integers(0, tree.n + 1)]
    for A in (G, gm.ConstraintMatrix(tree), gm.MappingMatrix(index, tree.n)):
        dot_test(A, rng)
        dot_test(A.T, rng)
        dot_test(A.aslinearoperator(), rng)
        dot_test(A.T.aslinearoperator(), rng)
        assert A.T.T is A
        assert A.T.shape == A.shape[::-1]
        assert A.T.dtype == A.dtype
        assert A.T.nnz == A.nnz == A.tocsr().nnz == A.T.tocsr().nnz
    u, v = rng.standard_normal((2, tree.n))
    assert G.solve(u) @ v == pytest.approx(u @ G.T.solve(v), rel=1e-9, abs=1e-9)


@given(parents(max_n=15), SEEDS)
def test_array_on_the_left(parent, seed):
    rng = np.random.default_rng(seed)
    tree = gm.Tree.from_parents(parent)
    for A in (gm.GenerationMatrix(tree, 2.0), gm.ConstraintMatrix(tree)):
        for v in (rng.standard_normal(tree.n), rng.standard_normal((2, tree.n))):
            close(v @ A, v @ A.toarray())
        for v in (rng.standard_normal(A.shape[1]), rng.standard_normal((2, A.shape[1]))):
            close(v @ A.T, v @ A.toarray().T)


# --------------------------------------------------------------------------- forms of input

# How a type of input comes out: of the structure matrix, and of one with float64 weights.
TYPES = [
    ("float64", np.float64, np.float64),
    ("float32", np.float32, np.float32),
    ("float16", np.float32, np.float32),
    ("longdouble", np.float64, np.float64),
    (">f8", np.float64, np.float64),
    (">f4", np.float32, np.float32),
    ("int64", np.int64, np.float64),
    ("int8", np.int64, np.float64),
    ("uint8", np.int64, np.float64),
    ("uint64", np.int64, np.float64),
    (">i4", np.int64, np.float64),
    ("bool", np.int64, np.float64),
]
PARENT = np.array([6, 6, 1, 2, 2, 1, -1, 0])


@pytest.mark.parametrize(("given_type", "structure", "weighted"), TYPES)
@pytest.mark.parametrize("columns", [(), (2,)])
def test_types_that_are_kept(given_type, structure, weighted, columns):
    tree = gm.Tree.from_parents(PARENT)
    v = np.random.default_rng(1).integers(0, 2, (tree.n, *columns)).astype(given_type)
    for G, kept in (
        (gm.GenerationMatrix(tree), structure),
        (gm.GenerationMatrix(tree, np.full(tree.n, 2.0)), weighted),
    ):
        dense = four_dense(G.toarray())
        for name, operation in four_operations(G).items():
            found = operation(v)
            assert found.dtype == kept, name
            close(found.astype(float), dense[name](v.astype(float)))


@pytest.mark.parametrize("node_type", [np.float32, np.float64])
@pytest.mark.parametrize("v_type", [np.float32, np.float64, np.int64])
def test_types_of_weights(node_type, v_type):
    tree = gm.Tree.from_parents(PARENT)
    G = gm.GenerationMatrix(tree, np.full(tree.n, 2, node_type), np.full(tree.n, 3, np.float32))
    assert G.dtype == node_type
    expected = np.result_type(node_type, v_type) if v_type is np.int64 else v_type
    for name, operation in four_operations(G).items():
        assert operation(np.ones(tree.n, v_type)).dtype == expected, name


def test_float32_is_as_exact_as_it_can_be():
    tree = gm.shapes.random_recursive(300, rng=1)
    rng = np.random.default_rng(1)
    node, edge = rng.uniform(1, 2, (2, tree.n)).astype(np.float32)
    G = gm.GenerationMatrix(tree, node, edge / 2)
    D = reference.generation(tree.parent, node, edge / 2)
    v = rng.standard_normal(tree.n).astype(np.float32)
    dense = four_dense(D)
    for name, operation in four_operations(G).items():
        close(operation(v), dense[name](v), 1e-5)


def layouts(v: np.ndarray) -> dict[str, np.ndarray]:
    """The same numbers with another layout in memory."""
    frozen = v.copy()
    frozen.flags.writeable = False
    wide = np.zeros((3 * v.shape[0], *v.shape[1:]), v.dtype)
    wide[::3] = v
    return {
        "read-only": frozen,
        "every third": wide[::3],
        "backwards": v[::-1].copy()[::-1],
        "Fortran": np.asfortranarray(v),
        "big-endian": v.astype(v.dtype.newbyteorder(">")),
        "unaligned": np.frombuffer(b"x" + v.tobytes(), v.dtype, v.size, 1).reshape(v.shape),
    }


@given(parents(max_n=12), st.sampled_from([(), (1,), (3,)]), SEEDS)
def test_layouts(parent, columns, seed):
    tree = gm.Tree.from_parents(parent)
    v = np.random.default_rng(seed).standard_normal((tree.n, *columns))
    for G in (gm.GenerationMatrix(tree), gm.GenerationMatrix(tree, 2.0, np.full(tree.n, 0.5))):
        for name, operation in four_operations(G).items():
            expected = operation(v)
            for layout, w in layouts(v).items():
                np.testing.assert_array_equal(operation(w), expected, err_msg=f"{name} {layout}")
                np.testing.assert_array_equal(w, v)
                if name.endswith("solve"):
                    out = np.full_like(v, np.nan)
                    assert operation(w, out=out) is out
                    np.testing.assert_array_equal(out, expected)
        np.testing.assert_array_equal(
            G.solve(v.tolist()) if v.ndim == 1 else G.solve(v), G.solve(v)
        )


@pytest.mark.parametrize("form", ["big-endian", "every third", "read-only", "list", "int"])
def test_weights_in_any_form(form):
    tree = gm.Tree.from_parents(PARENT)
    w = np.arange(1.0, tree.n + 1)
    forms = {**layouts(w), "list": w.tolist(), "int": w.astype(int)}
    v = np.arange(tree.n) / 4
    expected = gm.GenerationMatrix(tree, w, 1 / w).solve(v)
    other = gm.GenerationMatrix(tree, forms[form], 1 / w)
    np.testing.assert_array_equal(other.solve(v), expected)
    np.testing.assert_array_equal(other.node_weight, w)


# --------------------------------------------------------------------------- where results go


@given(parents(max_n=12), node_weights, COLUMNS, SEEDS)
def test_in_place(parent, node, columns, seed):
    tree = gm.Tree.from_parents(parent)
    G = gm.GenerationMatrix(tree, node(tree.n))
    rng = np.random.default_rng(seed)
    start = rng.standard_normal((tree.n, *columns))
    for solve in (G.solve, G.T.solve):
        expected = solve(start)
        v = start.copy()
        assert solve(v, out=v) is v
        np.testing.assert_array_equal(v, expected)
        v = start.copy()
        assert solve(v, overwrite=True) is v
        np.testing.assert_array_equal(v, expected)
        strided = np.zeros((2 * tree.n, *columns))[::2]
        strided[:] = start
        assert solve(strided, overwrite=True) is strided
        np.testing.assert_array_equal(strided, expected)
        fortran = np.asfortranarray(start)
        assert solve(fortran, overwrite=True) is fortran
        np.testing.assert_array_equal(fortran, expected)


@given(parents(max_n=12), node_weights, SEEDS)
def test_out_that_overlaps(parent, node, seed):
    """The result may overlap a part of v, or v in reverse."""
    tree = gm.Tree.from_parents(parent)
    G = gm.GenerationMatrix(tree, node(tree.n))
    start = np.random.default_rng(seed).standard_normal(tree.n)
    for solve in (G.solve, G.T.solve):
        expected = solve(start)
        shared = np.concatenate([start, [0.0]])
        np.testing.assert_array_equal(solve(shared[:-1], out=shared[1:]), expected)
        np.testing.assert_array_equal(shared[1:], expected)
        v = start.copy()
        backwards = solve(v, out=v[::-1])
        np.testing.assert_array_equal(backwards, expected)
        np.testing.assert_array_equal(v, expected[::-1])
        view = start.copy()
        np.testing.assert_array_equal(solve(view, out=view[:]), expected)


def test_wrong_out():
    tree = gm.Tree.from_parents(PARENT)
    G = gm.GenerationMatrix(tree)
    v = np.ones(tree.n)
    frozen = np.ones(tree.n)
    frozen.flags.writeable = False
    wrong = [
        np.ones(tree.n + 1),
        np.ones((tree.n, 1)),
        np.ones(tree.n, np.float32),
        np.ones(tree.n, ">f8"),
        np.ones(tree.n, np.int64),
        frozen,
    ]
    for solve in (G.solve, G.T.solve):
        for out in wrong:
            before = out.copy()
            with pytest.raises(ValueError, match="Argument 'out'"):
                solve(v, out=out)
            np.testing.assert_array_equal(out, before)
        with pytest.raises(TypeError, match="Argument 'out' must be a numpy array, not list"):
            solve(v, out=[0.0] * tree.n)
        with pytest.raises(ValueError, match=r"Argument 'out' .* overwrite"):
            solve(v, out=v, overwrite=True)
        with pytest.raises(TypeError, match=r"Argument 'v' .* overwritten"):
            solve(v.tolist(), overwrite=True)
        with pytest.raises(ValueError, match="writable"):
            solve(frozen, overwrite=True)
    weighted = gm.GenerationMatrix(tree, 2.0)
    whole = np.ones(tree.n, np.int64)
    with pytest.raises(ValueError, match="int64"):
        weighted.solve(whole, overwrite=True)
    np.testing.assert_array_equal(whole, 1)
    np.testing.assert_array_equal(v, 1)


@pytest.mark.parametrize(
    ("v", "error"),
    [
        (np.ones(7), ValueError),
        (np.ones((8, 1, 1)), ValueError),
        (np.ones((1, 8)), ValueError),
        (3.0, ValueError),
        (None, ValueError),
        ([[1], [1, 2]], ValueError),
        (np.ones(8, complex), TypeError),
        (["a"] * 8, TypeError),
        ([None] * 8, TypeError),
        (np.zeros(8, "M8[D]"), TypeError),
    ],
)
def test_wrong_values(v, error):
    tree = gm.Tree.from_parents(PARENT)
    G, M, H = gm.GenerationMatrix(tree), gm.ConstraintMatrix(tree), gm.MappingMatrix([2, 0], 8)
    for operation in (*four_operations(G).values(), M.T.__matmul__, H.__matmul__):
        with pytest.raises(error, match="Argument 'v'"):
            operation(v)


def test_not_a_number_passes_through():
    tree = gm.shapes.star(3)
    G = gm.GenerationMatrix(tree)
    np.testing.assert_array_equal(G.T.solve([1.0, np.nan, 2.0]), [np.nan, np.nan, 2])
    np.testing.assert_array_equal(G.solve([1.0, np.inf, 2.0]), [1, np.inf, 3])


# --------------------------------------------------------------------------- integers


@given(parents(max_n=12), st.data())
def test_integers_are_exact_or_refused(parent, data):
    """Near the ends of 64 bits a sum is either right or an error, never wrapped."""
    tree = gm.Tree.from_parents(parent)
    G = gm.GenerationMatrix(tree)
    large = st.one_of(
        st.integers(-MOST - 1, MOST),
        st.sampled_from([-MOST - 1, -MOST, -1, 0, 1, MOST, MOST // 2, MOST // 2 + 1]),
    )
    v = data.draw(st.lists(large, min_size=tree.n, max_size=tree.n))
    D = reference.generation(parent).astype(object).astype(int)
    expected = {
        "@": [sum(int(a) * b for a, b in zip(row, v, strict=True)) for row in D],
        "T @": [sum(int(a) * b for a, b in zip(row, v, strict=True)) for row in D.T],
        "solve": reference.exact_down(parent, v),
        "T solve": reference.exact_up(parent, v),
    }
    array = np.array(v, np.int64)
    for name, operation in four_operations(G).items():
        fits = all(-MOST - 1 <= x <= MOST for x in expected[name])
        if fits:
            assert operation(array).tolist() == expected[name]
            continue
        first = next(i for i, x in enumerate(expected[name]) if not -MOST - 1 <= x <= MOST)
        with pytest.raises(gm.IntegerOverflowError, match=f"Argument 'v' .* node {first} "):
            operation(array)
        assert array.tolist() == v


def test_integers_at_the_border():
    G = gm.GenerationMatrix(gm.shapes.star(4))
    assert G.T.solve([0, MOST, 1, -1])[0] == MOST
    assert G.T.solve([0, -MOST, -1, 0])[0] == -MOST - 1
    assert G.T.solve([MOST, MOST, -MOST, -MOST])[0] == 0
    for v in ([0, MOST, 1, 0], [0, -MOST, -1, -1]):
        with pytest.raises(ValueError, match="64-bit integers; that at node 0 does not"):
            G.T.solve(v)
        kept = np.array(v)
        with pytest.raises(OverflowError):
            G.T.solve(kept, overwrite=True)
        assert kept.tolist() == v
    with pytest.raises(gm.IntegerOverflowError, match=r"signed integers; node 2 does not"):
        G.solve(np.array([0, 1, 2**63, 2**64 - 1], np.uint64))
    assert G.solve(np.array([0, 0, 0, MOST], np.uint64))[3] == MOST


def test_integers_in_columns_and_in_place():
    G = gm.GenerationMatrix(gm.Tree.from_parents([1, -1, 1]))
    v = np.array([[MOST, 3], [0, MOST], [-1, -4]])
    expected = [[MOST, 3], [MOST - 1, MOST - 1], [-1, -4]]
    assert G.T.solve(v).tolist() == expected
    out = np.empty_like(v)
    assert G.T.solve(v, out=out) is out
    assert out.tolist() == expected
    assert G.T.solve(v, overwrite=True) is v
    assert v.tolist() == expected


# --------------------------------------------------------------------------- weights


def test_weights_are_copied_and_shown():
    tree = gm.Tree.from_parents(PARENT)
    w = np.arange(1.0, 9)
    G = gm.GenerationMatrix(tree, w, w)
    w[:] = np.nan
    np.testing.assert_array_equal(G.node_weight, np.arange(1.0, 9))
    edge = np.arange(1.0, 9)
    edge[tree.root] = 1
    np.testing.assert_array_equal(G.edge_weight, edge)
    assert not G.is_structure
    S = gm.GenerationMatrix(tree)
    assert S.is_structure
    np.testing.assert_array_equal(S.node_weight, 1)
    np.testing.assert_array_equal(S.edge_weight, 1)


def test_weight_of_the_root_edge_is_ignored():
    tree = gm.Tree.from_parents([1, -1, 1])
    for at_root in (0.0, np.nan, np.inf, 5.0):
        G = gm.GenerationMatrix(tree, edge_weight=[2.0, at_root, 3.0])
        np.testing.assert_array_equal(G.toarray(), [[1, -2, 0], [0, 1, 0], [0, -3, 1]])
        np.testing.assert_array_equal(G.solve(np.ones(3)), [3, 1, 4])


@pytest.mark.parametrize("argument", ["node_weight", "edge_weight"])
@pytest.mark.parametrize(
    ("bad", "error", "rule"),
    [
        ([1, 1, 0.0, 0.0, 1], ValueError, "node 2 has weight 0.0"),
        ([1, 1, 1, np.nan, 1], ValueError, "node 3 has weight nan"),
        ([1, 1, 1, 1, -np.inf], ValueError, "node 4 has weight -inf"),
        ([1, 1, 1, 1], ValueError, r"shape \(5,\), not \(4,\)"),
        (np.ones((5, 1)), ValueError, r"shape \(5,\), not \(5, 1\)"),
        ([True] * 5, TypeError, "bool"),
        ([1j] * 5, TypeError, "complex"),
        (["a"] * 5, TypeError, "<U1"),
        ([None] * 5, TypeError, "real numbers; entry 0 is None"),
        (np.nan, ValueError, "weight nan"),
        (0, ValueError, "weight 0"),
    ],
)
def test_wrong_weights(argument, bad, error, rule):
    tree = gm.Tree.from_parents([-1, 0, 0, 1, 1])
    before = np.copy(bad)
    with pytest.raises(error, match=f"Argument '{argument}' must .*{rule}"):
        gm.GenerationMatrix(tree, **{argument: bad})
    np.testing.assert_array_equal(before, np.copy(bad))


def test_wrong_arguments():
    tree = gm.shapes.star(3)
    for tree_like in (None, [-1, 0], tree.parent):
        with pytest.raises(TypeError, match="Argument 'tree' must be a Tree"):
            gm.GenerationMatrix(tree_like)
        with pytest.raises(TypeError, match="Argument 'tree' must be a Tree"):
            gm.ConstraintMatrix(tree_like)
    with pytest.raises(ValueError, match="Argument 'threads' must be at least 1, not 0"):
        gm.GenerationMatrix(tree, threads=0)
    with pytest.raises(TypeError, match="Argument 'threads'"):
        gm.GenerationMatrix(tree, threads=1.5)
    with pytest.raises(TypeError, match="no solve"):
        gm.ConstraintMatrix(tree).T.solve(np.ones(1))


# --------------------------------------------------------------------------- other forms


def check_canonical_csr(found, expected: np.ndarray) -> None:
    assert isinstance(found, scipy.sparse.csr_array)
    found.check_format(full_check=True)
    assert found.has_sorted_indices
    # The flags may be wrong if scipy is told them; the indices themselves cannot.
    for row in range(found.shape[0]):
        columns = found.indices[found.indptr[row] : found.indptr[row + 1]]
        assert np.all(np.diff(columns) > 0)
    assert np.all(found.data != 0)
    np.testing.assert_array_equal(found.toarray(), expected)


@given(parents(), node_weights, edge_weights)
def test_tocsr(parent, node, edge):
    tree = gm.Tree.from_parents(parent)
    node, edge = node(tree.n), edge(tree.n)
    G = gm.GenerationMatrix(tree, node, edge)
    D = reference.generation(parent, node, edge)
    check_canonical_csr(G.tocsr(), D)
    check_canonical_csr(G.T.tocsr(), D.T)
    assert G.nnz == G.tocsr().nnz == 2 * tree.n - 1
    assert G.tocsr().dtype == G.dtype


@given(parents())
def test_constraint_matrix(parent):
    tree = gm.Tree.from_parents(parent)
    M = gm.ConstraintMatrix(tree)
    D = reference.constraint(parent)
    assert M.shape == D.shape
    check_canonical_csr(M.tocsr(), D)
    check_canonical_csr(M.T.tocsr(), D.T)
    rng = np.random.default_rng(0)
    for columns in ((), (2,)):
        y, v = rng.integers(-9, 9, (M.shape[1], *columns)), rng.standard_normal((tree.n, *columns))
        close(M @ y, D @ y)
        close(M.T @ v, D.T @ v)
        assert (M @ y).dtype == np.int64
    assert not np.any(M.T @ tree.aggregate(np.arange(tree.n_leaves)))


@given(st.integers(1, 12), SEEDS)
def test_mapping_matrix(n, seed):
    rng = np.random.default_rng(seed)
    index = rng.permutation(n)[: rng.integers(0, n + 1)]
    H = gm.MappingMatrix(index, n)
    D = reference.mapping(index, n)
    check_canonical_csr(H.tocsr(), D)
    check_canonical_csr(H.T.tocsr(), D.T)
    for columns in ((), (2,)):
        v, x = rng.integers(-9, 9, (n, *columns)), rng.standard_normal((index.size, *columns))
        np.testing.assert_array_equal(H @ v, D @ v)
        np.testing.assert_array_equal(H.T @ x, D.T @ x)
        np.testing.assert_array_equal(H @ (H.T @ x), x)
    kept = index.copy()
    index[:] = 0
    np.testing.assert_array_equal(H.index, kept)


@given(st.integers(1, 6), st.lists(st.integers(0, 5), max_size=12), SEEDS)
def test_mapping_matrix_with_repeated_entries(n, index, seed):
    index = np.array(index, dtype=int) % n
    rng = np.random.default_rng(seed)
    H, D = gm.MappingMatrix(index, n), reference.mapping(index, n)
    check_canonical_csr(H.tocsr(), D)
    check_canonical_csr(H.T.tocsr(), D.T)
    np.testing.assert_array_equal((H.T @ H).toarray(), np.diag(np.bincount(index, minlength=n)))
    for columns in ((), (2,)):
        v, x = rng.standard_normal((n, *columns)), rng.integers(-9, 9, (index.size, *columns))
        np.testing.assert_array_equal(H @ v, D @ v)
        np.testing.assert_array_equal(H.T @ x, D.T @ x)
        assert (H.T @ x).dtype == np.int64
        for dtype in (np.float32, np.float64):
            assert (H.T @ x.astype(dtype)).dtype == dtype
            np.testing.assert_array_equal(H.T @ x.astype(dtype), D.T @ x)


@given(parents(max_n=20))
def test_the_parents_of_the_leaves_are_the_lower_half_of_the_constraints(parent):
    tree = gm.Tree.from_parents(parent).canonical()
    if tree.n == 1:
        return
    H = gm.MappingMatrix(tree.parent[tree.leaves], tree.n_internal)
    M = gm.ConstraintMatrix(tree).toarray()
    np.testing.assert_array_equal(M[tree.n_internal :], -H.toarray())
    np.testing.assert_array_equal(
        M[: tree.n_internal], gm.GenerationMatrix(tree.k_order_subtree(1))
    )


def test_repeated_entries_add_up_exactly_or_not_at_all():
    H = gm.MappingMatrix([1, 1, 1], 3)
    large = 2**62
    np.testing.assert_array_equal(H.T @ np.array([large, -large, large]), [0, large, 0])
    with pytest.raises(gm.IntegerOverflowError, match=r"Argument 'v' .* at node 1 does not"):
        H.T @ np.array([large, large, large])


@pytest.mark.parametrize(
    ("index", "n", "error", "message"),
    [
        ([0, 4], 4, ValueError, "Argument 'index' .* from 0 to 3, not 4"),
        ([0, -1], 4, ValueError, "Argument 'index' .* from 0 to 3, not -1"),
        ([0.0], 4, TypeError, "Argument 'index'"),
        ([True], 4, TypeError, "Argument 'index'"),
        ([[0]], 4, ValueError, "Argument 'index'"),
        (np.empty((0, 2), int), 4, ValueError, "Argument 'index'"),
        ([[0], [1, 2]], 4, ValueError, "Argument 'index'"),
        (0, 4, ValueError, "Argument 'index'"),
        ([0], 0, ValueError, "Argument 'n' must be at least 1"),
        ([0], 1.0, TypeError, "Argument 'n'"),
    ],
)
def test_wrong_mapping(index, n, error, message):
    with pytest.raises(error, match=message):
        gm.MappingMatrix(index, n)


@given(parents(max_n=20), node_weights, edge_weights, st.data())
def test_submatrix(parent, node, edge, data):
    tree = gm.Tree.from_parents(parent)
    G = gm.GenerationMatrix(tree, node(tree.n), edge(tree.n))
    k = data.draw(st.integers(0, tree.height - 1))
    kept, _ = reference.kth_subtree(parent, k)
    np.testing.assert_array_equal(G.submatrix(k).toarray(), G.toarray()[np.ix_(kept, kept)])
    with pytest.raises(ValueError, match="Argument 'k'"):
        G.submatrix(tree.height)


@given(parents(max_n=6), parents(max_n=6))
def test_is_similar(parent, other):
    G = gm.GenerationMatrix(gm.Tree.from_parents(parent))
    H = gm.GenerationMatrix(gm.Tree.from_parents(other), -2.0, 3.0)
    same = G.shape == H.shape and np.array_equal(G.toarray() != 0, H.toarray() != 0)
    assert G.is_similar(H) == H.is_similar(G) == same
    assert G.is_similar(G)
    with pytest.raises(TypeError, match="Argument 'other'"):
        G.is_similar(G.toarray())


def test_linear_operator_in_a_solver():
    tree = gm.shapes.random_recursive(60, rng=3)
    rng = np.random.default_rng(3)
    G = gm.GenerationMatrix(tree, rng.uniform(2, 3, tree.n), rng.uniform(-1, 1, tree.n) + 1.1)
    v = rng.standard_normal(tree.n)
    for A, solve in ((G, G.solve), (G.T, G.T.solve)):
        operator = A.aslinearoperator()
        assert isinstance(operator, scipy.sparse.linalg.LinearOperator)
        assert operator.dtype == G.dtype
        x, info = scipy.sparse.linalg.gmres(operator, v, rtol=1e-12, restart=60)
        assert info == 0
        close(x, solve(v), 1e-8)
        close(scipy.sparse.linalg.lsqr(operator, v, atol=1e-13, btol=1e-13)[0], solve(v), 1e-6)
        close(operator @ np.eye(tree.n), A.toarray())
        assert operator.matvec(np.ones(tree.n, np.int64)).dtype == G.dtype


def test_repr():
    G = gm.GenerationMatrix(gm.shapes.star(3))
    assert repr(G) == "GenerationMatrix(3 x 3, nnz=5, dtype=float64)"
    assert repr(G.T) == "GenerationMatrix(3 x 3, nnz=5, dtype=float64).T"
    assert repr(gm.MappingMatrix([1], 3)) == "MappingMatrix(1 x 3, nnz=1, dtype=float64)"


@pytest.mark.parametrize("node", [None, 4.0])
@pytest.mark.parametrize("columns", [(), (2,)])
def test_one_node(node, columns):
    tree = gm.Tree.from_parents([-1])
    G = gm.GenerationMatrix(tree, node, edge_weight=0.0 if node else None)
    w = node or 1.0
    v = np.full((1, *columns), 2.0)
    np.testing.assert_array_equal(G @ v, w * v)
    np.testing.assert_array_equal(G.T @ v, w * v)
    np.testing.assert_array_equal(G.solve(v), v / w)
    np.testing.assert_array_equal(G.T.solve(v), v / w)
    assert G.toarray().tolist() == [[w]]
    assert G.nnz == 1
    assert G.submatrix(0).is_similar(G)
    M = gm.ConstraintMatrix(tree)
    assert M.shape == (1, 0)
    assert M.nnz == M.tocsr().nnz == 0
    np.testing.assert_array_equal(M @ np.ones((0, *columns)), np.zeros((1, *columns)))
    assert (M.T @ v).shape == (0, *columns)
    H = gm.MappingMatrix([0], 1)
    np.testing.assert_array_equal(H @ v, v)


# --------------------------------------------------------------------------- matrices with matrices


def all_matrices(tree: gm.Tree) -> list:
    G = gm.GenerationMatrix(tree, node_weight=np.linspace(1, 2, tree.n))
    M, H = gm.ConstraintMatrix(tree), gm.MappingMatrix(tree.leaves, tree.n)
    return [A for B in (G, M, H) for A in (B, B.T)]


def test_products_of_matrices_are_sparse():
    matrices = all_matrices(gm.Tree.from_parents([2, 2, -1, 0, 0]))
    for A in matrices:
        for B in matrices:
            if A.shape[1] == B.shape[0]:
                product = A @ B
                assert product.format == "csr"
                np.testing.assert_allclose(product.toarray(), A.toarray() @ B.toarray())
            else:
                with pytest.raises(ValueError, match=f"Argument 'v' must have {A.shape[1]} rows"):
                    A @ B


def test_a_product_with_a_sparse_matrix_of_scipy_is_sparse():
    for A in all_matrices(gm.shapes.complete(2, 3)):
        other = A.tocsr().T.tocoo()
        product = A @ other
        assert product.format == "csr"
        np.testing.assert_allclose(product.toarray(), A.toarray() @ other.toarray())


def test_numpy_sees_the_dense_matrix():
    for A in all_matrices(gm.Tree.from_parents([2, 2, -1, 0, 0])):
        dense = np.asarray(A)
        assert dense.dtype == A.dtype
        assert np.array_equal(A, A.toarray())
        assert np.asarray(A, dtype=np.float32).dtype == np.float32
        np.testing.assert_array_equal(np.asarray(A.T), dense.T)
        with pytest.raises(ValueError, match="copy=False is impossible"):
            A.__array__(copy=False)


@pytest.mark.large
def test_what_would_fill_the_memory_is_refused_with_what_to_call_instead():
    tree = gm.shapes.star(3_000_000)
    G = gm.GenerationMatrix(tree)
    for dense in (G.toarray, G.T.toarray, lambda: np.asarray(G), lambda: np.asarray(G.T)):
        with pytest.raises(ValueError, match=r"3000000 x 3000000 .* tocsr\(\)"):
            dense()
    with pytest.raises(ValueError, match=r"The product, .* A @ \(B @ v\)"):
        G @ G.T
    assert (G.T @ G).nnz == 2 * (tree.n - 1) + tree.n


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_a_subclass_of_arrays_is_read_as_the_array_it_is():
    G = gm.GenerationMatrix(gm.shapes.star(3))
    with pytest.raises(ValueError, match=r"Argument 'v' must have shape \(3,\)"):
        G.solve(np.asmatrix([1.0, 2.0, 3.0]))
    column = np.asmatrix([[1.0], [2.0], [3.0]])
    np.testing.assert_array_equal(G.T.solve(column), [[6], [2], [3]])
    out = np.asmatrix(np.zeros((3, 1)))
    assert G.T.solve(column, out=out) is out
    np.testing.assert_array_equal(np.asarray(out), [[6], [2], [3]])
    assert G.T.solve(column, overwrite=True) is column
    np.testing.assert_array_equal(np.asarray(column), [[6], [2], [3]])
    with pytest.raises(TypeError, match="Argument 'out' must be a numpy array, not MaskedArray"):
        G.solve(np.ones(3), out=np.ma.zeros(3))


# --------------------------------------------------------------------------- sums in 32 bits


@pytest.mark.large
def test_a_million_small_numbers_in_32_bits_add_up():
    tree = gm.shapes.star(1_000_001)
    v = np.full(tree.n, 0.1, np.float32)
    v[0] = 0
    expected = np.float32(v.sum(dtype=np.float64))
    G = gm.GenerationMatrix(tree)
    assert G.T.solve(v)[0] == expected
    assert (G.T @ v)[0] == -expected
    assert tree.aggregate(v[1:])[0] == expected
    assert (gm.ConstraintMatrix(tree).T @ v)[0] == -expected
    columns = np.stack([v, 3 * v], axis=1)
    np.testing.assert_allclose(G.T.solve(columns)[0], [expected, 3 * expected], rtol=1e-7)


@pytest.mark.parametrize("columns", [(), (2,)])
def test_ones_in_32_bits_are_counted_past_what_32_bits_can_count(columns):
    """In float32 a sum of 2^24 does not grow, however many ones are added."""
    tree = gm.shapes.star(1002)
    v = np.ones((tree.n, *columns), np.float32)
    v[0], v[1] = 0, 2**24
    expected = np.full(columns, 2**24 + 1000, np.float32)
    np.testing.assert_array_equal(gm.GenerationMatrix(tree).T.solve(v)[0], expected)
    np.testing.assert_array_equal(tree.aggregate(v[1:])[0], expected)


@pytest.mark.parametrize("name", named_shapes(3000))
@pytest.mark.parametrize("columns", [(), (2,)])
def test_sums_in_32_bits_are_those_of_64_bits_rounded(name, columns):
    tree = named_shapes(3000)[name]
    rng = np.random.default_rng(1)
    v = rng.uniform(0.5, 1.5, (tree.n, *columns)).astype(np.float32)
    node, edge = rng.uniform(1, 2, (2, tree.n)).astype(np.float32)
    for weights in (
        {},
        {"node_weight": node},
        {"edge_weight": edge / 2},
        {"node_weight": node, "edge_weight": edge / 2},
    ):
        G = gm.GenerationMatrix(tree, **weights)
        wide = gm.GenerationMatrix(tree, **{k: w.astype(float) for k, w in weights.items()})
        found = G.T.solve(v)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, wide.T.solve(v.astype(float)), rtol=3e-7)


def test_integer_sums_that_only_a_wide_family_overflows_are_refused():
    tree = gm.shapes.star(20)
    v = np.full(tree.n, 2**60)
    for result in (lambda: gm.GenerationMatrix(tree).T.solve(v), lambda: tree.aggregate(v[1:])):
        with pytest.raises(gm.IntegerOverflowError, match="that at node 0 does not"):
            result()
    assert gm.GenerationMatrix(gm.shapes.star(8)).T.solve(v[:8] - 1)[0] == 8 * (2**60 - 1)
