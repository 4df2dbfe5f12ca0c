"""Tables on a tree: compared with dense algebra; exact and undetermined cells, bad input."""

from __future__ import annotations

import numpy as np
import pytest
from reference.tables import Problem, cell_sums, leaf_sums, random_problem

import gmtree as gm
from gmtree.consistency.sparse import ConvergenceError


def solver(problem: Problem, **options) -> gm.TableConsistency:
    return gm.TableConsistency(
        problem.tree, problem.axes, {q: {"node": s} for q, s in problem.variance.items()}, **options
    )


def assert_close(found, expected, scale, tolerance=1e-10):
    assert np.max(abs(found - expected), initial=0) <= tolerance * scale


# --------------------------------------------------------------------------- dense algebra


@pytest.mark.parametrize("seed", range(20))
def test_equals_generalised_least_squares_with_missing_and_exact_values(seed):
    rng = np.random.default_rng(seed)
    for _ in range(25):
        problem = random_problem(rng)
        tables = solver(problem)
        x = tables.project(problem.y)
        scale = max(np.nanmax(abs(y), initial=1) for y in problem.y.values())
        for query, expected in problem.solutions().items():
            known = np.isfinite(expected.variance)
            assert_close(tables.marginal(x, query)[known], expected.value[known], scale)
            variance = tables.node_variance(query)
            one_each = variance.reshape(-1, *[1] * len(query))
            np.testing.assert_array_equal(np.isfinite(one_each) & known, known)
            np.testing.assert_array_equal(np.isinf(one_each) & ~known, ~known)
            spread = np.broadcast_to(one_each, known.shape)[known]
            np.testing.assert_allclose(spread, expected.variance[known], rtol=1e-9, atol=1e-11)
        sums = tables.marginal(x, ())
        S = problem.tree.aggregate(x[problem.tree.leaves].reshape(problem.tree.n_leaves, -1))
        assert_close(x.reshape(problem.tree.n, -1), S, scale)
        assert_close(sums[problem.tree.root], sums[problem.tree.leaves].sum(), scale)


def test_undetermined_contrasts_are_zero():
    tree = gm.Tree.from_parents([-1, 0, 0])
    tables = gm.TableConsistency(tree, {"a": 2, "b": 3}, {(): 1.0, ("a",): [np.inf, 1.0, np.inf]})
    y = {(): [9.0, 6.0, 3.0], ("a",): [[np.nan, 0.0], [2.0, 4.0], [np.inf, 0.0]]}
    x = tables.project(y)
    np.testing.assert_allclose(x[1], [[2 / 3] * 3, [4 / 3] * 3])
    np.testing.assert_allclose(x[2], np.full((2, 3), 0.5))
    assert np.isinf(tables.node_variance(("a", "b"))).all()
    np.testing.assert_array_equal(np.isinf(tables.node_variance(("a",))), [True, False, True])
    np.testing.assert_array_equal(np.isinf(tables.node_variance(("b",))), [True, True, True])
    assert np.isfinite(tables.node_variance(())).all()
    assert np.isnan(tables.covariance(("b",), 1)).all()


def test_undetermined_siblings_share_contrasts_evenly():
    tree = gm.shapes.star(4)
    tables = gm.TableConsistency(tree, {"a": 2}, {(): 1.0, ("a",): [1.0, 1.0, np.inf, np.inf]})
    y = {(): [12.0, 4.0, 4.0, 4.0], ("a",): [[8.0, 4.0], [2.0, 2.0], [0, 0], [0, 0]]}
    x = tables.project(y)
    np.testing.assert_allclose(x, [[8, 4], [2, 2], [3, 1], [3, 1]])
    np.testing.assert_array_equal(np.isinf(tables.node_variance(("a",))), [0, 0, 1, 1])


def test_a_leaf_without_any_total_on_its_path_is_refused():
    tree = gm.shapes.star(3)
    with pytest.raises(ValueError, match="neither leaf 2 nor any node above it"):
        gm.TableConsistency(tree, {"a": 2}, {("a",): [np.inf, 1.0, np.inf]})


def test_covariances_and_sums_of_cells_beside_dense_algebra():
    rng = np.random.default_rng(5)
    for _ in range(20):
        problem = random_problem(rng, missing=0, exact=0, whole=True, most_unknowns=40)
        tables, tree = solver(problem), problem.tree
        query = tuple(rng.permutation(list(problem.axes)).tolist()[: rng.integers(0, 4)])
        lengths = [problem.axes[name] for name in query]
        rows, _, s = problem.system()
        inside = np.linalg.inv(rows.T @ (rows / s[:, None]))
        ascending = tuple(name for name in problem.axes if name in query)
        S = np.kron(leaf_sums(tree), cell_sums(problem.axes, ascending))
        shape = [problem.axes[name] for name in ascending]
        cov = (S @ inside @ S.T).reshape(tree.n, *shape, tree.n, *shape)
        i, j = (int(k) for k in rng.integers(0, tree.n, 2))
        order = [ascending.index(name) for name in query]
        d = len(query)
        block = cov[(i, *[slice(None)] * d, j)].transpose(*order, *(d + k for k in order))
        np.testing.assert_allclose(tables.covariance(query, i, j), block, atol=1e-9)
        weight = rng.normal(size=lengths)
        own = cov[(i, *[slice(None)] * d, i)].transpose(*order, *(d + k for k in order))
        expected = np.tensordot(np.tensordot(own, weight, d), weight, d) if d else own * weight**2
        np.testing.assert_allclose(tables.sum_variance(query, weight)[i], expected, rtol=1e-9)


def test_one_query_without_axes_is_plain_consistency():
    tree = gm.shapes.grouped(200, rng=1)
    rng = np.random.default_rng(0)
    v, s = rng.normal(size=tree.n), rng.uniform(1, 2, tree.n)
    tables, plain = gm.TableConsistency(tree, {}, {(): s}), gm.Consistency(tree, s)
    np.testing.assert_allclose(tables.project({(): v}), plain.project(v), atol=1e-12)
    np.testing.assert_allclose(tables.node_variance(()), plain.node_variance())


def test_nested_axes_are_a_hierarchy_of_attributes():
    """Nested axes of decades and years give the results of a crossed tree of ages."""
    rng = np.random.default_rng(0)
    tree, ages = gm.shapes.grouped(20, rng=1), gm.shapes.complete(3, 3)
    y = rng.normal(size=(tree.n, ages.n))
    nested = {(): 1.0, ("decade",): 1.0, ("decade", "year"): 1.0}
    tables = gm.TableConsistency(tree, {"decade": 3, "year": 3}, nested)
    x = tables.project(
        {(): y[:, 0], ("decade",): y[:, 1:4], ("decade", "year"): y[:, 4:].reshape(-1, 3, 3)}
    )
    crossed = gm.CrossedConsistency([tree, ages]).project(y)
    np.testing.assert_allclose(x.reshape(tree.n, 9), crossed[:, 4:], atol=1e-12)


# --------------------------------------------------------------------------- forms of input


def test_axes_in_any_order_are_the_same_query():
    tree, rng = gm.shapes.star(5), np.random.default_rng(0)
    y = rng.normal(size=(5, 2, 3, 4))
    one = gm.TableConsistency(tree, {"a": 2, "b": 3, "c": 4}, {("a", "b", "c"): 1.0})
    other = gm.TableConsistency(tree, {"a": 2, "b": 3, "c": 4}, {("c", "a", "b"): 1.0})
    x = one.project({("a", "b", "c"): y})
    np.testing.assert_array_equal(other.project({("b", "c", "a"): y.transpose(0, 2, 3, 1)}), x)
    np.testing.assert_allclose(one.marginal(x, ("c", "a")), x.sum(axis=2).transpose(0, 2, 1))
    np.testing.assert_allclose(one.marginal(x[0], ("b",)), x[0].sum(axis=(0, 2)))


def test_types_and_out():
    tree, rng = gm.shapes.grouped(50, rng=0), np.random.default_rng(0)
    tables = gm.TableConsistency(tree, {"a": 3}, {(): 2.0, ("a",): 1.0})
    y = {(): rng.integers(0, 50, tree.n), ("a",): rng.integers(0, 20, (tree.n, 3))}
    before = {query: values.copy() for query, values in y.items()}
    x = tables.project(y)
    assert x.dtype == np.float64
    single = {query: values.astype(np.float32) for query, values in y.items()}
    assert tables.project(single).dtype == np.float32
    np.testing.assert_allclose(tables.project(single), x, atol=1e-3)
    out = np.empty((tree.n, 3))
    assert tables.project(y, out=out) is out
    np.testing.assert_array_equal(out, x)
    strided = np.empty((tree.n, 6))[:, ::2]
    np.testing.assert_array_equal(tables.project(y, out=strided), x)
    for query, values in y.items():
        np.testing.assert_array_equal(values, before[query])
    whole = y[("a",)].astype(np.float64)
    np.testing.assert_array_equal(tables.project({**y, ("a",): whole}, out=whole), x)


def test_the_number_of_threads_does_not_change_a_bit():
    tree, rng = gm.shapes.grouped(60_000, rng=0), np.random.default_rng(0)
    variance = {(): 1.0, ("a",): 2.0, ("a", "b"): rng.uniform(1, 2, tree.n)}
    y = {
        (): rng.normal(size=tree.n),
        ("a",): rng.normal(size=(tree.n, 3)),
        ("a", "b"): rng.normal(size=(tree.n, 3, 7)),
    }
    one, two = (
        gm.TableConsistency(tree, {"a": 3, "b": 7}, variance, threads=k).project(y) for k in (1, 3)
    )
    np.testing.assert_array_equal(one, two)


def test_memory_beyond_input_and_output():
    from gmtree.bench.timing import peak_bytes

    tree, rng = gm.datasets.census2010(nodes=20_000).tree, np.random.default_rng(0)
    axes = {"sex": 2, "hispanic": 2, "race": 63}
    variance = {(): 1.0, ("sex",): 1.0, ("hispanic",): 1.0, ("race",): 1.0, tuple(axes): 1.0}
    y = {query: rng.normal(size=(tree.n, *(axes[a] for a in query))) for query in variance}
    tables, out = gm.TableConsistency(tree, axes, variance), np.empty((tree.n, 2, 2, 63))
    tables.project(y, out=out)
    assert peak_bytes(lambda: tables.project(y, out=out)) < 0.2 * out.nbytes


# --------------------------------------------------------------------------- exact values


def test_exact_values_that_agree_are_kept():
    tree = gm.shapes.star(3)
    tables = gm.TableConsistency(tree, {"a": 2}, {(): 0.0, ("a",): [0.0, 1.0, 1.0]})
    x = tables.project({(): [10, 4, 6], ("a",): [[3.0, 7.0], [1.0, 2.0], [3.0, 4.0]]})
    np.testing.assert_allclose(tables.marginal(x, ()), [10, 4, 6])
    np.testing.assert_allclose(x[0], [3, 7])


def test_contradictions_between_queries_name_query_and_node():
    tree = gm.shapes.star(3)
    tables = gm.TableConsistency(tree, {"a": 2}, {(): [0.0, 0, 1], ("a",): [1.0, 0, 1]})
    y = {(): [10.0, 4, 6], ("a",): np.array([[3.0, 7.0], [1.0, 2.0], [3.0, 4.0]])}
    out = np.full((3, 2), 7.0)
    with pytest.raises(ValueError, match=r"at node 1 query \(\) differs by 1 from query \('a',\)"):
        tables.project(y, out=out)
    assert (out == 7).all()


def test_contradictions_between_nodes_name_query_and_node():
    tree = gm.shapes.star(3)
    tables = gm.TableConsistency(tree, {"a": 2}, {("a",): 0.0})
    y = np.array([[3.0, 7.0], [1.0, 2.0], [3.0, 4.0]])
    with pytest.raises(ValueError, match=r"query \('a',\) at node 0 differs by 1 .* children"):
        tables.project({("a",): y})


def test_exact_values_of_both_signs_may_be_rounded_sums():
    tree, rng = gm.shapes.star(1000), np.random.default_rng(0)
    y = rng.normal(size=(1000, 2)) * 1e8
    y[0] = y[1:].sum(axis=0)
    gm.TableConsistency(tree, {"a": 2}, {("a",): 0.0}).project({("a",): y})


# --------------------------------------------------------------------------- bounds


@pytest.mark.parametrize("whole", [True, False])
def test_nonnegative_beside_nnls(whole):
    rng = np.random.default_rng(3)
    for _ in range(15):
        problem = random_problem(rng, missing=0.2, exact=0, low=-2, whole=whole, most_unknowns=60)
        tables = solver(problem)
        x, info = tables.project(problem.y, nonnegative=True, return_info=True, tolerance=1e-8)
        assert x.min() >= 0
        cells = x[problem.tree.leaves].ravel()
        best = problem.nonnegative()
        rows, _, s = problem.system()
        used = np.isfinite(s)
        moved = rows[used] @ (cells - best) / np.sqrt(s[used])
        assert abs(moved).max() < 1e-5
        assert problem.objective(cells) - problem.objective(best) <= info.gap + 1e-9
        assert info.at_bound == np.count_nonzero(cells == 0)
        S = problem.tree.aggregate(x[problem.tree.leaves].reshape(problem.tree.n_leaves, -1))
        np.testing.assert_allclose(x.reshape(problem.tree.n, -1), S)


def small_census(rng, nodes=400):
    tree, axes = gm.datasets.census2010(nodes=nodes).tree, {"sex": 2, "age": 5}
    variance = {query: np.full(tree.n, 4.0) for query in [(), ("sex",), ("sex", "age")]}
    y = {}
    truth = tree.aggregate(rng.poisson(0.8, (tree.n_leaves, 10))).reshape(tree.n, 2, 5)
    for query, values in zip(variance, (truth.sum((1, 2)), truth.sum(2), truth), strict=True):
        y[query] = values + rng.normal(0, 2, values.shape)
    return gm.TableConsistency(tree, axes, variance), y, truth


def test_a_start_from_a_similar_problem_saves_iterations():
    rng = np.random.default_rng(0)
    tables, y, truth = small_census(rng)
    x, info = tables.project(y, nonnegative=True, return_info=True)
    assert np.mean((x - truth) ** 2) < np.mean((tables.project(y) - truth) ** 2)
    moved = {query: values + 1e-4 * rng.normal(size=values.shape) for query, values in y.items()}
    _, cold = tables.project(moved, nonnegative=True, return_info=True)
    again, warm = tables.project(moved, nonnegative=True, return_info=True, start=info)
    assert warm.iterations < 0.7 * cold.iterations
    np.testing.assert_allclose(again, tables.project(moved, nonnegative=True), atol=1e-4)


def test_exact_totals_are_kept_without_negative_cells():
    tree = gm.shapes.star(4)
    tables = gm.TableConsistency(tree, {"a": 2}, {(): [0.0, 1, 1, 1], ("a",): 1.0})
    y = {(): [10.0, 4, 5, 6], ("a",): [[9.0, -3], [5, -2], [4, -4], [3, 1]]}
    x, info = tables.project(y, nonnegative=True, return_info=True)
    assert x.min() == 0
    assert x[0].sum() == pytest.approx(10, abs=1e-6)
    assert info.violation < 1e-5
    assert info.distance == np.sqrt(2 * info.gap)


def test_what_cannot_be_met_without_negative_cells_is_an_error():
    tree = gm.shapes.star(3)
    tables = gm.TableConsistency(tree, {"a": 2}, {("a",): [0.0, 1, 1]})
    y = np.array([[9.0, -3], [5, -2], [4, -4]])
    with pytest.raises(ValueError, match=r"query \('a',\) at node 0 has -3"):
        tables.project({("a",): y}, nonnegative=True)
    tables = gm.TableConsistency(tree, {"a": 2}, {(): [1.0, 0, 0], ("a",): [0, 1.0, np.inf]})
    y = {(): [1.0, 5, 0], ("a",): [[4.0, 1], [8.0, -3], [0, 0]]}
    x = tables.project(y, nonnegative=True)
    np.testing.assert_allclose(x, [[4, 1], [4, 1], [0, 0]], atol=1e-5)
    with pytest.raises(ConvergenceError, match="in 2 iterations"):
        tables.project(y, nonnegative=True, iterations=2)


def test_whole_numbers_are_floors_or_ceilings_with_exact_sums():
    tables, y, _ = small_census(np.random.default_rng(1))
    tree = tables.tree
    x = tables.project(y, nonnegative=True)
    for how in (True, "random"):
        k = tables.project(y, nonnegative=True, integer=how, rng=0)
        assert k.dtype == np.int64
        assert (abs(k - x) < 1 + 1e-6).all()
        leaves = k[tree.leaves].reshape(tree.n_leaves, -1)
        np.testing.assert_array_equal(k.reshape(tree.n, -1), tree.aggregate(leaves))
        # Sums of ten cells, each moved by less than one and by 0.3 as a rule.
        moved = tables.marginal(k, ()) - tables.marginal(x, ())
        assert abs(moved).max() < 10
        assert np.sqrt(np.mean(moved**2)) < 2


# --------------------------------------------------------------------------- bad input

TREE = gm.shapes.star(3)
AXES = {"sex": 2, "age": 3}


@pytest.mark.parametrize(
    ("axes", "variance", "words"),
    [
        ({"sex": 0}, {(): 1}, "'axes' must have at least one value each; 'sex' has 0"),
        ({"sex": 2.5}, {(): 1}, "lengths or lists of labels; 'sex' has 2.5"),
        (["sex"], {(): 1}, "'axes' must be a mapping"),
        (AXES, {}, "at least one query"),
        (AXES, 1.0, "'variance' must be a mapping from queries"),
        (AXES, {"sex": 1.0}, "tuples of axes as queries, not 'sex'"),
        (AXES, {("race",): 1.0}, r"query \('race',\) has 'race'"),
        (AXES, {("sex", "sex"): 1.0}, r"each axis once; query \('sex', 'sex'\)"),
        (AXES, {("sex", "age"): 1.0, ("age", "sex"): 2.0}, "each query once"),
        (AXES, {("sex",): [1.0, -1.0, 2.0]}, r"node 1 has -1.0. \(query \('sex',\)\)"),
        (AXES, {("sex",): [1.0, 2.0, 3.0, 4.0]}, r"shape \(4,\). \(query \('sex',\)\)"),
        (AXES, {("sex",): "much"}, r"real numbers.*\(query \('sex',\)\)"),
    ],
)
def test_bad_problems(axes, variance, words):
    with pytest.raises((TypeError, ValueError), match=words):
        gm.TableConsistency(TREE, axes, variance)


@pytest.mark.parametrize(
    ("y", "words"),
    [
        ({(): np.ones(3)}, r"every query; \('sex',\) is missing"),
        ({(): np.ones(3), ("age",): np.ones((3, 3))}, r"with a variance; \('age',\) has none"),
        ({(): np.ones(3), ("sex",): np.ones((3, 3))}, r"query \('sex',\) must have shape \(3, 2\)"),
        ({(): [1, np.nan, 1], ("sex",): np.ones((3, 2))}, r"query \(\) at node 1 has nan"),
        ({(): ["a", "b", "c"], ("sex",): np.ones((3, 2))}, "real numbers"),
        (np.ones(3), "mapping from queries"),
    ],
)
def test_bad_measurements(y, words):
    tables = gm.TableConsistency(TREE, AXES, {(): 1.0, ("sex",): 1.0})
    with pytest.raises((TypeError, ValueError), match=words):
        tables.project(y)


def test_bad_options():
    tables = gm.TableConsistency(TREE, {"a": 2}, {("a",): 1.0})
    y = {("a",): np.ones((3, 2))}
    for options, words in [
        ({"nonnegative": 1}, "'nonnegative' must be True or False"),
        ({"integer": "up"}, "'integer' must be"),
        ({"return_info": True}, "'return_info' belongs to nonnegative=True"),
        ({"out": np.empty((3, 3))}, "'out' must have shape"),
        ({"nonnegative": True, "tolerance": 0.0}, "'tolerance' must be positive"),
        ({"nonnegative": True, "iterations": 0}, "'iterations' must be at least 1"),
        ({"nonnegative": True, "start": 1}, "'start' must be the info"),
    ]:
        with pytest.raises((TypeError, ValueError), match=words):
            tables.project(y, **options)
    with pytest.raises(TypeError, match="'tree' must be a Tree"):
        gm.TableConsistency([-1, 0], {"a": 2}, {("a",): 1.0})
    with pytest.raises(ValueError, match="'x' must have tables of shape"):
        tables.marginal(np.ones((3, 3)), ())
    with pytest.raises(ValueError, match="'weight' must have the shape"):
        tables.sum_variance(("a",), [1, 2, 3])
    assert repr(tables).endswith("{a: 2}, ('a',))")


# --------------------------------------------------------------------------- rounding and labels


def test_whole_numbers_are_refused_where_a_marginal_is_known_exactly():
    tree, total = gm.shapes.star(3), np.array([10.0, 4.0, 6.0])
    cells = np.array([[3.4, 3.3, 3.3], [1.4, 1.3, 1.3], [2.0, 2.0, 2.0]])
    measured = {(): total, ("a",): cells}
    tables = gm.TableConsistency(tree, {"a": 3}, {(): 0.0, ("a",): 1.0})
    for options in ({"integer": True}, {"integer": "random", "nonnegative": True}):
        with pytest.raises(ValueError, match=r"'integer' must be False .* query \(\) at node 0"):
            tables.project(measured, **options)
    some = gm.TableConsistency(tree, {"a": 3}, {(): {"node": [1.0, 1.0, 0.0]}, ("a",): 1.0})
    with pytest.raises(ValueError, match=r"query \(\) at node 2"):
        some.project(measured, integer=True)


def test_whole_numbers_are_kept_where_all_cells_are_known_exactly():
    tree, cells = gm.shapes.star(3), np.array([[3, 1], [1, 0], [2, 1]])
    exact = gm.TableConsistency(tree, {"a": 2}, {(): 0.0, ("a",): 0.0})
    x = exact.project({(): cells.sum(axis=1), ("a",): cells}, integer=True)
    np.testing.assert_array_equal(x, cells)
    one = gm.TableConsistency(tree, {"a": 1}, {(): 0.0, ("a",): 1.0})
    x = one.project({(): [3, 1, 2], ("a",): np.zeros((3, 1))}, integer=True)
    np.testing.assert_array_equal(x, [[3], [1], [2]])


def test_labelled_totals_are_aligned_and_other_labelled_tables_refused():
    pd = pytest.importorskip("pandas")
    tree = gm.Tree.from_parents([-1, 0, 0], labels=["all", "x", "y"])
    tables = gm.TableConsistency(tree, {"a": 2}, {(): 1.0, ("a",): 1.0})
    total, cells = np.array([10.0, 1.0, 8.0]), np.array([[4.0, 5.0], [1.0, 0.0], [4.0, 5.0]])
    expected = tables.project({(): total, ("a",): cells})
    shuffled = pd.Series(total, index=tree.labels).iloc[[2, 0, 1]]
    for by_a in (cells, pd.DataFrame(cells)):
        found = tables.project({(): shuffled, ("a",): by_a})
        np.testing.assert_array_equal(found, expected)
    frame = pd.DataFrame(cells, index=tree.labels)
    with pytest.raises(ValueError, match="'measurements' must not have an index of labels"):
        tables.project({(): total, ("a",): frame})


def test_labels_of_axes_name_the_columns_of_frames_and_change_nothing_else():
    tree, variance = gm.shapes.star(3), {("sex", "age"): 1.0}
    x = np.arange(18.0).reshape(3, 2, 3)
    plain = gm.TableConsistency(tree, {"sex": 2, "age": 3}, variance)
    named = gm.TableConsistency(tree, {"sex": ["f", "m"], "age": 3}, variance)
    assert named.axes == plain.axes
    np.testing.assert_array_equal(
        named.project({("sex", "age"): x}), plain.project({("sex", "age"): x})
    )
    frame = named.to_frame(x, ("sex", "age"))
    assert list(frame)[3:] == [f"value_{s}_{a}" for s in "fm" for a in range(3)]
    assert frame.value_m_2.tolist() == x[:, 1, 2].tolist()
    assert named.to_frame(x, ("age", "sex")).value_2_m.tolist() == x[:, 1, 2].tolist()
    assert named.to_frame(x).value.tolist() == x.sum(axis=(1, 2)).tolist()
    with pytest.raises(ValueError, match="must have each label once; 'sex' has"):
        gm.TableConsistency(tree, {"sex": ["f", "f"]}, variance)
    with pytest.raises(TypeError, match="must have lengths or lists of labels; 'sex' has 'fm'"):
        gm.TableConsistency(tree, {"sex": "fm"}, variance)
