"""Benchmarks are measured by users; here only that they run and tell the truth, on small trees."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from trees import named_shapes, renumber
from trees import trees as any_tree

import gmtree as gm
from gmtree import bench
from gmtree.bench import bars, data, figures, paper_table, scale, stages, timing, trees
from gmtree.bench import peers as peers_benchmark
from gmtree.bench.comparisons import COMPARISONS, Comparison, Pair, measurements
from gmtree.bench.levelwise import LevelByLevel
from gmtree.bench.report import Check, Column, Report, Table
from gmtree.bench.settings import QUICK_NODES, Settings

SMALL = Settings(nodes=2000, repeat=2)

# --------------------------------------------------------------------------- time and memory


def test_best_times_are_taken_in_turns_after_one_call_of_each():
    calls: list[str] = []
    times = timing.best_times([lambda: calls.append("a"), lambda: calls.append("b")], times=3)
    assert calls == list("ab" * 4)
    assert len(times) == 2
    assert min(times) >= 0


def test_best_is_the_shortest(monkeypatch):
    ticks = iter([0.0, 5.0, 10.0, 12.0, 20.0, 29.0])
    monkeypatch.setattr(timing, "perf_counter", lambda: next(ticks))
    assert timing.best_time(lambda: None, times=3) == 2.0


def test_copying_copies():
    copy_function = timing.copying(5)
    copy_function()
    source, target = (cell.cell_contents for cell in reversed(copy_function.__closure__))
    np.testing.assert_array_equal(source, np.ones(5))
    np.testing.assert_array_equal(target, np.ones(5))


def test_peak_bytes_counts_what_is_given_back():
    def action() -> None:
        np.ones(1_000_000)

    assert timing.peak_bytes(action) == pytest.approx(8_000_000, rel=0.01)


def test_machine_and_versions():
    where = timing.machine()
    assert where["cores"] >= 1
    assert where["processor"]
    assert where["python"] == ".".join(map(str, sys.version_info[:3]))
    known = timing.versions()
    assert known["gmtree"] == gm.__version__
    assert known["numpy"] == np.__version__
    assert timing._version("no such package") is None


# --------------------------------------------------------------------------- trees


@pytest.mark.parametrize("shape", trees.SHAPES)
def test_shapes_have_about_the_size_asked_for(shape):
    tree = trees.make(shape, 3000)
    assert 1500 <= tree.n <= 6000
    assert trees.SHAPES[shape].description


def test_unknown_shape():
    with pytest.raises(ValueError, match=r"'shape' must be one of census, .* not 'bush'"):
        trees.make("bush")


@given(any_tree())
def test_numberings_are_of_the_same_tree(tree):
    np.testing.assert_array_equal(
        trees.renumber(tree.parent, np.arange(tree.n)[::-1]),
        renumber(tree.parent, np.arange(tree.n)[::-1]),
    )
    for parent in (trees.shuffled(tree), trees.depth_first(tree)):
        other = gm.Tree.from_parents(parent)
        for values in ("node_height", "depth", "subtree_size", "child_count"):
            np.testing.assert_array_equal(
                np.sort(getattr(other, values)), np.sort(getattr(tree, values))
            )


@given(any_tree())
def test_depth_first_is_what_a_walk_meets(tree):
    parent = trees.depth_first(tree)
    stack, walk = [gm.Tree.from_parents(parent).root], []
    children: dict[int, list[int]] = {}
    for i, p in enumerate(parent.tolist()):
        children.setdefault(p, []).append(i)
    while stack:
        walk.append(stack.pop())
        stack.extend(reversed(children.get(walk[-1], [])))
    assert walk == list(range(tree.n))


@given(any_tree())
def test_entries_by_edge_are_all_of_them(tree):
    for matrix in (gm.laplacian(tree), gm.adjacency(tree), gm.GenerationMatrix(tree).tocsr()):
        listed = trees.entries_by_edge(matrix, tree)
        np.testing.assert_array_equal(listed.toarray(), matrix.toarray())
        assert listed.nnz == matrix.nnz


@pytest.mark.parametrize("n", [1, 2, 3, 40, 500])
def test_level_by_level_is_the_optimum(n):
    for tree in named_shapes(n).values():
        noisy = np.random.default_rng(n).normal(10, 5, tree.n)
        before = noisy.copy()
        out = np.empty(tree.n)
        peer = LevelByLevel(tree)
        assert peer.project(noisy, out=out) is out
        np.testing.assert_allclose(out, gm.consistent(tree, noisy), rtol=0, atol=1e-10)
        np.testing.assert_array_equal(peer.project(noisy), out)
        np.testing.assert_array_equal(noisy, before)


# --------------------------------------------------------------------------- data sets


def test_sizes_of_data_sets():
    for name in data.TITLES:
        assert 1000 <= data.load(name, SMALL).tree.n <= 4000
    taxi = data.load("nyctaxi", SMALL)
    np.testing.assert_array_equal(taxi.counts, gm.datasets.nyctaxi(months=1).counts[:1333])
    assert taxi.tree.n_leaves == 1333
    assert "first 1,333 seconds" in taxi.description
    with pytest.raises(ValueError, match="'nodes' must be at most 47304000 for nyctaxi"):
        data.load("nyctaxi", Settings(nodes=10**9))


def test_parts_grow():
    for name in data.TITLES:
        parts = list(data.parts(name, SMALL))
        assert len(parts) == data.part_count(name, SMALL)
        assert all(a.tree.n < b.tree.n for a, b in pairwise(parts))
        assert 1000 <= parts[-1].tree.n <= 4000
    assert [part.label for part in data.parts("syndata", SMALL)] == ["height 8", "height 11"]


def test_full_sizes_without_making_them():
    full = Settings()
    assert data._heights(full) == (8, 12, 16, 20, 24)
    assert data._first_seconds(full)[0] == 31 * 86_400
    assert data._first_seconds(full)[-1] == 31_536_000
    assert scale._decades(full) == [10**4, 10**5, 10**6, 10**7, 10**8]
    assert trees.binary_height(trees.SHAPES["binary"].nodes) == 24
    assert trees.SHAPES["grouped"].nodes / trees.GROUPED_NODES_PER_LEAF == 10_000_000


def test_settings():
    assert Settings().is_full_size
    quick = Settings(quick=True)
    assert quick.size == QUICK_NODES
    assert Settings(quick=True, nodes=5).size == 5
    assert (quick.times(9, 3), Settings().times(9, 3), SMALL.times(9, 3)) == (3, 9, 2)


# --------------------------------------------------------------------------- peers

CASES = [(each, shape) for each in COMPARISONS for shape in each.shapes if each.is_installed]
NAMES = [f"{each.task}, {each.peer}, {shape}" for each, shape in CASES]


@pytest.mark.parametrize(("comparison", "shape"), CASES, ids=NAMES)
def test_peers_agree(comparison, shape):
    for nodes in (50, 3000):
        pair = comparison.prepare(trees.make(shape, nodes).canonical())
        assert pair.difference() <= comparison.tolerance


def test_comparisons_are_as_the_table_says():
    assert len({(each.task, each.peer) for each in COMPARISONS}) == len(COMPARISONS)
    for each in COMPARISONS:
        assert {*each.least, *each.most_nodes} <= {*each.shapes, *trees.LARGE}
        assert {*each.shapes} <= {*trees.SHAPES}


def _made_up(module: str, theirs: float) -> Comparison:
    def prepare(tree: gm.Tree) -> Pair:
        return Pair(lambda: np.ones(3), lambda: np.full(3, theirs))

    return Comparison("counting", "Nobody", module, prepare, ("star",), least={"star": 0.0})


def test_a_peer_that_disagrees_is_not_timed(monkeypatch):
    wrong = _made_up("numpy", 1.5)
    monkeypatch.setattr(peers_benchmark, "COMPARISONS", (wrong,))
    report = peers_benchmark.run(SMALL)
    assert report.tables[0].rows == [
        ["counting", "Nobody", "star", 2000, None, None, None, pytest.approx(1 / 3)]
    ]
    assert not report.is_right
    assert "WRONG" in report.as_text()
    assert peers_benchmark.compare(wrong, "star", SMALL).checks() == []


def test_a_peer_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setattr(peers_benchmark, "COMPARISONS", (_made_up("no_such_module", 1.0),))
    report = peers_benchmark.run(SMALL)
    assert report.tables[0].rows == [["counting", "Nobody", "not installed", *[None] * 5]]
    assert "not installed" in report.as_text()
    assert report.is_right


def test_promises_are_checked_at_full_size():
    outcome = peers_benchmark.compare(_made_up("numpy", 1.0), "star", SMALL)
    (check,) = outcome.checks()
    assert check.holds
    assert check.measured == outcome.factor == outcome.theirs / outcome.ours


def test_slow_peers_get_smaller_trees():
    mintrace = next(each for each in COMPARISONS if "MinTrace" in each.peer)
    nodes = peers_benchmark.nodes_for
    assert nodes(mintrace, "census", Settings()) == 1_000_000
    assert nodes(mintrace, "census", Settings(nodes=10**8)) == 1_000_000
    assert nodes(mintrace, "census", SMALL) == 2000
    assert nodes(mintrace, "census", Settings(quick=True)) == 20_000
    assert nodes(COMPARISONS[0], "census", Settings()) is None


def test_a_slow_peer_is_timed_once(monkeypatch):
    monkeypatch.setattr(peers_benchmark, "PATIENCE", -1.0)
    calls = []
    pair = Pair(lambda: calls.append("ours"), lambda: calls.append("theirs"))
    peers_benchmark.timed(pair, SMALL)
    assert calls.count("theirs") == 1
    assert calls.count("ours") == 3


# --------------------------------------------------------------------------- the paper's table


@pytest.fixture(scope="module")
def table_report() -> Report:
    # Enough runs for the standard errors to mean something; the paper's queries would take long.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paper_table, "RANGES", 20_000)
        return paper_table.run(Settings(nodes=3000, repeat=20))


def _cells(report: Report, name: str) -> dict[str, dict]:
    found = next(each for each in report.tables if each.title.startswith(name))
    return {row["algorithm"]: row for row in found.as_dict()["rows"]}


@pytest.mark.parametrize("name", data.TITLES.values())
def test_measured_errors_are_the_expected_ones(table_report, name):
    rows = _cells(table_report, name)
    assert list(rows) == list(paper_table.ALGORITHMS)
    for algorithm in ("Processless", "PrivTrie", "GMC"):
        row = rows[algorithm]
        assert abs(row["rmse"] - row["expected"]) < 4 * row["s.e."]
    # One family has a quarter of all nodes, and most of the bias of the census.
    expected = rows["Processless"]["expected bias"]
    assert rows["Processless"]["bias"] == pytest.approx(expected, rel=0.15)
    assert rows["GMC"]["rmse"] < rows["Processless"]["rmse"]
    assert rows["PrivTrie"]["rmse"] == pytest.approx(rows["GMC"]["rmse"], rel=1e-9)
    assert rows["GMC"]["bias"] < 1e-6
    assert rows["GMC non-negative integer"]["bias"] == 0
    assert rows["GMC non-negative"]["rmse"] <= rows["GMC"]["rmse"] * (1 + 1e-9)


def test_boosting_is_optimal_on_complete_trees_only(table_report):
    complete, other = (_cells(table_report, name)["Boosting"] for name in ("SynData", "Census2010"))
    assert complete["rmse"] == pytest.approx(_cells(table_report, "SynData")["GMC"]["rmse"])
    assert complete["expected"] is not None
    assert other["expected"] is None
    assert other["bias"] > 1


def test_all_results_are_right(table_report):
    assert table_report.is_right
    assert sum(check.about_results for check in table_report.checks) == 10


def test_expected_errors_are_those_of_the_paper():
    """Raw error and bias of the full sizes from their formulas, without making the trees."""
    for name, (n, inner, h) in {
        "census2010": (11_802_162, 646_676, 8),
        "syndata": (2**25 - 1, 2**24 - 1, 25),
    }.items():
        bias = h * np.sqrt(2 * (1 + (n - 1) / inner))
        assert paper_table.PAPER[name]["Processless"].bias == pytest.approx(bias, abs=0.05)
    assert paper_table.PAPER["census2010"]["Processless"].rmse == pytest.approx(
        8 * 2**0.5, abs=0.01
    )
    leaves = 11_802_162 - 646_676
    expected = 8 * np.sqrt(2 * leaves / 11_802_162)
    assert paper_table.PAPER["census2010"]["GMC"].rmse == pytest.approx(expected, abs=0.01)


def test_expected_errors_against_all_ranges():
    """The mean over drawn ranges is near that over all ranges, which is known."""
    dataset = data.load("syndata", Settings(nodes=500))
    experiment = paper_table.Experiment.on(dataset)
    tree = dataset.tree
    chance = gm.queries.cover_probability(tree)
    expected = experiment.expected("Processless")
    assert expected.rmse == pytest.approx(np.sqrt(chance.sum() * 2 * tree.height**2), rel=0.01)
    assert expected.bias == pytest.approx(tree.height * 6**0.5, rel=0.01)
    assert experiment.expected("GMC non-negative") is None
    assert experiment.standard_error("GMC") is None


def test_taxi_is_scaled_to_the_height_of_the_paper():
    experiment = paper_table.Experiment.on(data.load("nyctaxi", SMALL))
    experiment.release(0)
    assert experiment._scale_to_paper() * experiment.expected("Processless").bias == pytest.approx(
        48.38
    )
    claims = [check.claim for check in experiment.checks(is_full_size=True)]
    assert "NYCTaxi, GMC: expected rmse off the paper's, relative" in claims
    assert "levels that the paper's bias tells" in experiment.table(True).notes[0]
    assert experiment.table(False).notes == []


def test_summary_is_in_the_form_of_the_paper(table_report):
    rows = table_report.tables[-1].as_dict()["rows"]
    assert [row["algorithm"] for row in rows][:2] == ["Processless", "  in the paper"]
    assert rows[1]["SynData"] == "166.37 / 61.24"
    assert len(rows) == 10


@pytest.mark.parametrize(
    ("tree", "complete"),
    [
        (gm.shapes.complete(2, 5), True),
        (gm.shapes.chain(5), True),
        (gm.shapes.star(1), True),
        (gm.shapes.star(4), True),
        (gm.shapes.caterpillar(5), False),
        (gm.shapes.from_fanouts([[2], [2, 1]]), False),
    ],
)
def test_complete(tree, complete):
    assert paper_table.is_complete(tree) is complete


# --------------------------------------------------------------------------- time against size


def test_scale(monkeypatch):
    monkeypatch.setattr(scale.gc, "collect", lambda: 0)  # slow where many tests were run before
    report = scale.run(SMALL)
    *on_data, by_node = report.tables
    assert len(on_data) == 3
    for found in on_data:
        for row in found.rows:
            assert len(row) == 8
            assert all(time > 0 for time in row[2:])
    assert len(by_node.rows) == 1
    construction, projection, total = by_node.rows[0][1:]
    assert total == pytest.approx(construction + projection)
    assert [figure.name for figure in report.figures] == ["scale", "per_node"]
    assert len(report.figures[0].panels[0].lines) == 6


def test_recursion_stops_where_it_would_take_too_long(monkeypatch):
    tree = gm.shapes.complete(2, 5)
    v = measurements(tree)
    clock = scale.RecursiveClock(most_seconds=1.0)
    assert clock.time("a", gm.baselines.privtrie_recursive, tree, v) > 0
    clock.per_node["a"] = 1.0
    assert clock.time("a", gm.baselines.privtrie_recursive, tree, v) is None
    monkeypatch.setattr(scale._memory, "limit", lambda: 100)
    assert clock.time("b", gm.baselines.privtrie_recursive, tree, v) is None


def test_speed_ups_only_where_the_recursive_algorithm_finished():
    columns = [Column("part"), Column("nodes", "d")]
    columns += [Column(name, ".2f") for name in scale.ALGORITHMS]
    found = Table("", columns, [["a", 10, 1, 1, 2, 3, 50, 60], ["b", 20, 2, 1, 3, 4, 300, None]])
    (check,) = scale._speed_ups(found)
    assert check.claim == "Census2010: recursive PrivTrie over GMC from parents"
    assert (check.measured, check.holds) == (150, True)
    lines = scale._panel("", found).lines
    assert [len(line.x) for line in lines] == [2, 2, 2, 2, 2, 1]


def test_full_gmc():
    tree = gm.Tree.from_parents(trees.shuffled(gm.shapes.grouped(50, rng=1)))
    v, out = measurements(tree), np.empty(tree.n)
    scale.full_gmc(tree.parent, v, out)
    np.testing.assert_allclose(out, gm.consistent(tree, v))


def test_stages():
    report = stages.run(SMALL)
    rows = report.tables[0].as_dict()["rows"]
    assert [row["data set"] for row in rows[::2]] == list(data.TITLES.values())
    for row in rows:
        built = row["order"] + row["theta"]
        assert row["construction / post"] == pytest.approx(built / row["post-processing"])
    assert len(stages.run(Settings(nodes=500, quick=True)).tables[0].rows) == 3


# --------------------------------------------------------------------------- bars


def test_bars(capsys):
    report = bars.run(Settings(nodes=2000, repeat=1))
    assert report.is_right
    claims = [check.claim for check in report.checks]
    assert len(set(claims)) == len(claims)
    for text in (
        "census: solve, copies",
        "binary: weighted T.solve, copies",
        "census: T.solve, copies with one thread",
        "grouped: T.solve of 8 columns, copies of these",
        "binary: project, copies with one thread",
        "census: from_parents, shuffled, argsorts",
        "grouped: from_parents, parents first, bytes per node at peak",
        "chain: solve per node, of binary",
        "census: lca of a million pairs, copies",
        "random: laplacian, conversions of entries by edge",
        "binary: project with a variance per node, copies",
        "census: non-negative project of gamma counts, of project with one thread",
        "import gmtree, of import numba",
    ):
        assert text in claims
    # Nothing is said about speed on trees this small.
    for check in report.checks:
        assert check.measured > 0 or check.about_results
        assert check.verdict == ("ok" if check.about_results else "-")
    # Each figure was printed as soon as it was known.
    assert capsys.readouterr().err.splitlines() == [str(check) for check in report.checks]


def test_bars_of_memory_hold_at_any_size():
    case = bars.Case("binary", trees.make("binary", 100_000), times=1)
    found = [*bars.building(case), *bars.projection(case)]
    memory = [check for check in found if "bytes" in check.claim]
    assert len(memory) == 5
    for check in memory:
        assert check.holds, check


# --------------------------------------------------------------------------- reports


def test_checks():
    assert Check("", 1, 2).verdict == "ok"
    assert Check("", 2, 2).verdict == "ok"
    assert Check("", 3, 2).verdict == "over"
    assert Check("", 3, 2, at_least=True).verdict == "ok"
    assert Check("", 1, 2, at_least=True).verdict == "under"
    figure = Check("", 3, None)
    assert figure.holds
    assert figure.cells()[2:] == ["-", "-"]
    assert Check("", 3, 2, about_results=True).verdict == "WRONG"
    assert Check("", 3, 2, applies=False).verdict == "-"
    assert Check("c", 1, 2, at_least=True).cells() == ["c", 1, "at least 2", "under"]
    assert not Check("", float("nan"), 2).holds


def _report() -> Report:
    columns = [Column("tree"), Column("nodes", ",d"), Column("fast"), Column("ms", ".1f")]
    rows: list[list] = [["binary", 1023, True, 1.25], ["star", 10**6, False, None]]
    lines = [figures.Line("ours", [10, 100], [1.0, 2.0]), figures.Line("theirs", [10], [5.0])]
    bars_of = [figures.Line("first", ["a", "b"], [1.0, 2.0])]
    return Report(
        "example",
        "An example",
        {"nodes": None},
        tables=[Table("Times", columns, rows, ["A note."])],
        checks=[Check("fast", 1.0, 2.0)],
        figures=[
            figures.Figure(
                "picture",
                "Two panels",
                [figures.Panel("", "n", "s", lines), figures.Panel("", "", "s", bars_of)],
            )
        ],
    )


def test_report_as_text():
    text = _report().as_text()
    assert text.startswith(
        "An example\n\n"
        "Times\n"
        "tree        nodes  fast   ms\n"
        "binary      1,023  yes   1.2\n"
        "star    1,000,000  no      -\n"
        "A note.\n\n"
        "Checks\n"
        "check  measured  limit      verdict\n"
        "fast          1  at most 2  ok\n\n"
    )
    assert f"numpy {np.__version__}" in text


def test_report_as_markdown():
    lines = _report().as_markdown().splitlines()
    assert "| tree | nodes | fast | ms |" in lines
    assert "| :--- | ---: | :--- | ---: |" in lines
    assert "| star | 1,000,000 | no | - |" in lines
    assert "![Two panels](picture.png)" in lines


def test_report_as_json():
    found = json.loads(_report().as_json())
    assert found["tables"][0]["rows"][1] == {
        "tree": "star",
        "nodes": 10**6,
        "fast": False,
        "ms": None,
    }
    assert found["checks"][0]["holds"] is True
    assert found["checks"][0]["relation"] == "<="
    assert found["versions"]["numba"]
    assert found["machine"]["cores"] >= 1
    assert found["settings"] == {"nodes": None}
    assert found["date"].endswith("+00:00")


def test_report_is_written_with_or_without_matplotlib(tmp_path, monkeypatch):
    monkeypatch.setattr("gmtree.bench.report.find_spec", lambda name: None)
    report = _report()
    written = report.write(tmp_path / "new" / "folder")
    assert [path.name for path in written] == ["example.json", "example.md"]
    assert "matplotlib is not installed" in written[1].read_text()
    assert "picture.png" not in written[1].read_text()

    drawn = []
    monkeypatch.setattr("gmtree.bench.report.find_spec", lambda name: object())
    monkeypatch.setattr(figures, "draw", lambda figure, folder: drawn.append(figure) or [folder])
    report = _report()
    assert report.write(tmp_path)[2:] == [tmp_path]
    assert drawn == report.figures


def test_quick_needs_nothing_but_the_core():
    """All of it, with every optional package out of reach."""
    code = (
        "import sys\n"
        "for name in sys.argv[1].split(','): sys.modules[name] = None\n"
        "from gmtree.cli import main\n"
        "sys.exit(main(['bench', '--quick', '--nodes', '1000', '--repeat', '1', '--json']))\n"
    )
    optional = (
        "matplotlib,higra,opendp,hierarchicalforecast,clarabel,sksparse,pandas,networkx,hypothesis"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, optional],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    # Standard error has what peers and bars measured, as it was measured, and nothing else.
    lines = [line for line in done.stderr.splitlines() if " times as fast as " not in line]
    bars_found = next(report for report in found if report["benchmark"] == "bars")
    claims = [check["claim"] for check in bars_found["checks"]]
    assert all(line.startswith(claim) for line, claim in zip(lines, claims, strict=True))
    assert [report["benchmark"] for report in found] == list(bench.BENCHMARKS)
    peers = {row["peer"]: row["tree"] for row in found[3]["tables"][0]["rows"]}
    assert peers["Higra propagate"] == "not installed"
    assert peers["numpy, level by level"] != "not installed"
