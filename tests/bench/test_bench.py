"""Benchmarks run on small trees, and their reports are right. Nothing is timed here."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from io import StringIO
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from trees import named_shapes, renumber
from trees import trees as any_tree

import gmtree as gm
from gmtree import bench
from gmtree.bench import bars, data, figures, paper_table, peers, scale, timing, trees
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
    # Calls of 1 s, which is not counted, then of 5, 2 and 9 s.
    ticks = iter([0.0, 1.0, 10.0, 15.0, 20.0, 22.0, 30.0, 39.0])
    monkeypatch.setattr(timing, "perf_counter", lambda: next(ticks))
    assert timing.best_time(lambda: None, times=3) == 2.0


def test_a_slow_action_is_timed_once(monkeypatch):
    calls: list[str] = []
    ticks = iter([0.0, 1.0, 1.0, 4.0, 4.0, 5.0, 5.0, 5.5])
    monkeypatch.setattr(timing, "perf_counter", lambda: next(ticks))
    actions = [lambda: calls.append("ours"), lambda: calls.append("theirs")]
    assert timing.best_times(actions, times=2, patience=2.0) == [0.5, 3.0]
    assert calls == ["ours", "theirs", "ours", "ours"]


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


# --------------------------------------------------------------------------- trees


@pytest.mark.parametrize("shape", trees.SHAPES)
def test_shapes_have_about_the_size_asked_for(shape):
    tree = trees.make(shape, 3000)
    assert 1500 <= tree.n <= 6000


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


@pytest.mark.parametrize("n", [1, 2, 3, 40, 500])
def test_level_by_level_is_the_optimum(n):
    for tree in named_shapes(n).values():
        noisy = np.random.default_rng(n).normal(10, 5, tree.n)
        before = noisy.copy()
        out = np.empty(tree.n)
        peer = LevelByLevel(tree)
        assert peer.project(noisy, out=out) is out
        np.testing.assert_allclose(out, gm.reconcile(tree, noisy), rtol=0, atol=1e-10)
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
        sizes = [part.make().n for part in data.parts(name, SMALL)]
        assert all(a < b for a, b in pairwise(sizes))
        assert 1000 <= sizes[-1] <= 4000
    assert [part.label for part in data.parts("syndata", SMALL)] == ["height 8", "height 11"]


def test_full_sizes_without_making_them():
    full = Settings()
    assert data._heights(full) == (8, 12, 16, 20, 24)
    assert data._first_seconds(full)[0] == 31 * 86_400
    assert data._first_seconds(full)[-1] == 31_536_000
    assert scale.decades(full) == [10**4, 10**5, 10**6, 10**7, 10**8]
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
    monkeypatch.setattr(peers, "COMPARISONS", (_made_up("numpy", 1.5),))
    report = bench.measure("peers", SMALL)
    assert report.tables[0].rows == [
        ["counting", "Nobody", "star", 2000, None, None, None, pytest.approx(1 / 3)]
    ]
    assert [check.verdict for check in report.checks] == ["WRONG"]
    assert not report.is_right


def test_a_peer_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setattr(peers, "COMPARISONS", (_made_up("no_such_module", 1.0),))
    report = bench.measure("peers", SMALL)
    assert report.tables[0].rows == [["counting", "Nobody", "not installed", *[None] * 5]]
    assert report.is_right


def test_promises_are_judged_at_full_size(monkeypatch):
    monkeypatch.setattr(peers, "COMPARISONS", (_made_up("numpy", 1.0),))
    monkeypatch.setattr(peers.trees, "make", lambda shape, nodes: gm.shapes.star(9))
    for settings, verdict in ((Settings(), "ok"), (SMALL, "-")):
        report = bench.measure("peers", settings)
        promise, agreement = report.checks
        assert promise.claim == "counting, star: times faster than Nobody"
        assert promise.verdict == verdict
        assert promise.measured == report.tables[0].rows[0][6]
        assert agreement.verdict == "ok"


def test_slow_peers_get_smaller_trees():
    mintrace = next(each for each in COMPARISONS if "MinTrace" in each.peer)
    nodes = peers.nodes_for
    assert nodes(mintrace, "census", Settings()) == 1_000_000
    assert nodes(mintrace, "census", Settings(nodes=10**8)) == 1_000_000
    assert nodes(mintrace, "census", SMALL) == 2000
    assert nodes(mintrace, "census", Settings(quick=True)) == 20_000
    assert nodes(COMPARISONS[0], "census", Settings()) is None


# --------------------------------------------------------------------------- the paper's table


@pytest.fixture(scope="module")
def table_report() -> Report:
    # Enough runs for the standard errors to mean something; the paper's queries would take long.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paper_table, "RANGES", 3_000)
        return bench.measure("table", Settings(nodes=2000, repeat=12))


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
    """The mean over drawn ranges is near the mean over all ranges, which has a formula."""
    dataset = data.load("syndata", Settings(nodes=500))
    experiment = paper_table.Experiment(dataset)
    tree = dataset.tree
    chance = gm.queries.cover_probability(tree)
    expected = experiment.expected("Processless")
    assert expected.rmse == pytest.approx(np.sqrt(chance.sum() * 2 * tree.height**2), rel=0.01)
    assert expected.bias == pytest.approx(tree.height * 6**0.5, rel=0.01)
    assert experiment.expected("GMC non-negative") is None
    assert experiment.standard_error("GMC") is None


def test_taxi_is_scaled_to_the_height_of_the_paper():
    experiment = paper_table.Experiment(data.load("nyctaxi", SMALL))
    experiment.release(0)
    bias = experiment.scale_to_paper() * experiment.expected("Processless").bias
    assert bias == pytest.approx(48.38)
    claims = [check.claim for check in experiment.checks(is_full_size=True)]
    assert "NYCTaxi, GMC: expected rmse, relative difference from the paper's" in claims
    assert "levels that follow from the paper's bias" in experiment.scaled_note()


def test_summary_is_in_the_form_of_the_paper(table_report):
    rows = table_report.tables[-1].as_dict()["rows"]
    names = ["Processless", "  in the paper: Processless"]
    assert [row["algorithm"] for row in rows][:2] == names
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
    monkeypatch.setattr(scale.gc, "collect", lambda: 0)  # slow if many tests ran before
    report = bench.measure("scale", SMALL)
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


@pytest.mark.parametrize("little", ["RECURSIVE_SECONDS", "memory"])
def test_recursion_stops_where_it_would_take_too_long(monkeypatch, little):
    if little == "memory":
        monkeypatch.setattr(scale._memory, "limit", lambda: 400 * 300)
    else:
        monkeypatch.setattr(scale, little, 0.0)
    report = bench.measure("scale", Settings(datasets=("syndata",), nodes=1000, repeat=1))
    table, _ = report.tables
    assert len(table.numbers("GMC")) == 2
    # The heights are 8 and 10, and only the first is tried.
    assert len(table.numbers("recursive PrivTrie")) == 1
    assert [len(line.x) for line in report.figures[0].panels[0].lines] == [2, 2, 2, 2, 1, 1]


def test_speed_ups_only_where_the_recursive_algorithm_finished():
    columns = [Column("part"), Column("nodes", "d")]
    columns += [Column(name, ".2f") for name in scale.ALGORITHMS]
    found = Table("", columns, [["a", 10, 1, 1, 2, 3, 50, 60], ["b", 20, 2, 1, 3, 4, 300, None]])
    (check,) = scale.speed_ups(found)
    assert check.claim == "Census2010: recursive PrivTrie over GMC from parents"
    assert (check.measured, check.holds) == (150, True)


def test_full_gmc():
    tree = gm.Tree.from_parents(trees.shuffled(gm.shapes.grouped(50, rng=1)))
    v, out = measurements(tree), np.empty(tree.n)
    scale.full_gmc(tree.parent, v, out)
    np.testing.assert_allclose(out, gm.reconcile(tree, v))


def test_stages():
    report = bench.measure("stages", SMALL)
    rows = report.tables[0].as_dict()["rows"]
    assert [row["data set"] for row in rows[::2]] == list(data.TITLES.values())
    for row in rows:
        built = row["order"] + row["theta"]
        assert row["construction / post"] == pytest.approx(built / row["post-processing"])
    quick = Settings(datasets=("syndata",), nodes=500, quick=True)
    assert len(bench.measure("stages", quick).tables[0].rows) == 1


# --------------------------------------------------------------------------- bars


def test_bars():
    stream = StringIO()
    report = bench.measure("bars", Settings(nodes=2000, repeat=1), stream)
    assert report.is_right
    claims = [check.claim for check in report.checks]
    assert len(set(claims)) == len(claims)
    for text in (
        "census: solve, in copies",
        "binary: weighted T.solve, in copies",
        "census: T.solve with one thread, in copies",
        "grouped: T.solve of 8 columns, in copies of these",
        "binary: project by two threads, relative to one",
        "census: from_parents, shuffled, in argsorts",
        "grouped: from_parents, parents first, bytes per node at peak",
        "star: solve per node, relative to binary",
        "chain: project, in copies",
        "census: lca of a million pairs, in copies",
        "random: laplacian, in conversions of the same entries",
        "binary: project with a variance per node, in copies",
        "census: non-negative project of gamma counts with one thread, relative to project",
        "import gmtree, relative to import numba",
    ):
        assert text in claims
    # Speed is not judged on trees this small.
    for check in report.checks:
        assert check.measured > 0 or check.about_results
        assert check.verdict == ("ok" if check.about_results else "-")
    title, *lines = stream.getvalue().splitlines()[: len(claims) + 1]
    assert title.startswith("Ratios of speed and memory")
    assert lines == [str(check) for check in report.checks]


def test_ratios_are_times_in_units_of_another(monkeypatch):
    monkeypatch.setattr(bars, "best_times", lambda actions, times: [2.0, 6.0, 1.0][: len(actions)])
    case = bars.Case("star", gm.shapes.star(3), times=9)
    checks = list(case.ratios(lambda: None, {"slow": (lambda: None, 4), "quick": (len, 2)}))
    assert [(x.claim, x.measured, x.limit) for x in checks] == [
        ("star: slow", 3.0, 4),
        ("star: quick", 0.5, 2),
    ]


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
    assert Check("", 3).holds
    assert (Check("", 3).bound, Check("", 3).verdict) == ("-", "-")
    assert Check("", 3, 2, about_results=True).verdict == "WRONG"
    assert Check("", 3, 2, applies=False).verdict == "-"
    assert str(Check("c", 1, 2, at_least=True)) == "c: 1 (at least 2, under)"
    assert str(Check("c", 1.25)) == "c: 1.25"
    assert not Check("", float("nan"), 2).holds


def _report(stream: StringIO | None = None, nodes: int | None = None) -> Report:
    report = Report("example", "An example", Settings(nodes=nodes), stream=stream)
    table = report.table("Times", Column("tree"), Column("nodes", ",d"), Column("ms", ".1f"))
    table.add("binary", 1023, 1.25)
    table.add("star", 10**6, None)
    report.add([Check("fast", 1.0, 2.0), Check("right", 0.0, 1.0, about_results=True)])
    report.notes.append("A note.")
    lines = [figures.Line("ours", [10, 100], [1.0, 2.0]), figures.Line("theirs", [10], [5.0])]
    report.figures.append(figures.Figure("picture", "A panel", [figures.Panel("", "s", lines)]))
    return report


def test_lines_are_printed_as_they_are_measured():
    class Stream(StringIO):
        flushed = 0

        def flush(self) -> None:
            self.flushed += 1

    stream = Stream()
    report = _report(stream, nodes=10)
    assert stream.flushed == 5
    report.finish(3.0)
    text = stream.getvalue()
    assert text.startswith(
        "An example\n\n"
        "Times\n"
        "tree           nodes         ms\n"
        "binary         1,023        1.2\n"
        "star       1,000,000          -\n"
        "fast: 1 (at most 2, -)\n"
        "right: 0 (at most 1, ok)\n\n"
        "A note.\n\n"
        "Limits of time and memory are not judged on trees of this size.\n\n"
    )
    assert "; 3 s, at most " in text
    assert f"numpy {np.__version__}" in text


def test_report_as_markdown():
    lines = _report().as_markdown().splitlines()
    assert "| tree | nodes | ms |" in lines
    assert "| :--- | ---: | ---: |" in lines
    assert "| star | 1,000,000 | - |" in lines
    assert "| fast | 1 | at most 2 | ok |" in lines
    assert "![A panel](picture.png)" in lines


def test_report_is_written_with_or_without_matplotlib(tmp_path, monkeypatch):
    monkeypatch.setattr("gmtree.bench.report.find_spec", lambda name: None)
    data_file, document = _report().write(tmp_path)
    assert "matplotlib is not installed" in document.read_text()
    assert "picture.png" not in document.read_text()
    found = json.loads(data_file.read_text())
    assert found["tables"][0]["rows"][1] == {"tree": "star", "nodes": 10**6, "ms": None}
    assert found["checks"][0]["holds"] is True
    assert found["versions"]["numba"]
    assert found["machine"]["cores"] >= 1
    assert found["settings"]["nodes"] is None
    assert found["date"].endswith("+00:00")
    monkeypatch.undo()
    if find_spec("matplotlib") is not None:
        names = [path.name for path in _report().write(tmp_path)]
        assert names == ["example.json", "example.md", "picture.png", "picture.svg"]
        assert all((tmp_path / name).stat().st_size > 100 for name in names)


def test_quick_needs_nothing_but_the_core():
    """All benchmarks run if no optional package can be imported."""
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
    # Standard error has all checks, as they were measured.
    checks = [check["claim"] for report in found for check in report["checks"]]
    lines = [line for line in done.stderr.splitlines() if line.startswith(tuple(checks))]
    assert len(lines) >= len(checks) > 50
    assert [report["benchmark"] for report in found] == list(bench.BENCHMARKS)
    places = {row["peer"]: row["tree"] for row in found[3]["tables"][0]["rows"]}
    assert places["Higra propagate"] == "not installed"
    assert places["numpy, level by level"] != "not installed"


# --------------------------------------------------------------------------- Dask


def test_dask(monkeypatch):
    """A run that counts as full size, on workers that are threads."""
    distributed = pytest.importorskip("distributed")
    from gmtree.bench import dask, dask_data

    def workers(count):
        return distributed.Client(
            n_workers=count, threads_per_worker=1, processes=False, dashboard_address=None
        )

    monkeypatch.setattr(dask, "NODES", 5000)
    monkeypatch.setattr(dask, "workers", workers)
    monkeypatch.setattr(dask_data, "LEAVES_BELOW", (2000, 500, 100, 50))
    report = bench.measure("dask", Settings(nodes=5000, repeat=1))
    assert report.is_right
    assert [check.about_results for check in report.checks] == [True] * 2 + [False] * 4
    assert "two workers" in report.notes[0]
    ((nodes, *_),) = report.tables[0].rows
    assert 4900 < nodes < 5100


def test_errors_of_results_are_noticed(tmp_path):
    """The checks of results by pyarrow see values that do not add up, or are not optimal."""
    pytest.importorskip("dask")
    import pyarrow.parquet as pq

    from gmtree.bench.dask_data import Data, optimality_error, sums_error

    data = Data(tmp_path, 3000)
    with data.made() as made:
        assert sums_error(made) < 1e-12
        assert optimality_error(data, made) < 1e-9
        file = made.files("block")[0]
        table = pq.read_table(file)
        moved = table.column("y").to_numpy() + 0.5
        pq.write_table(table.set_column(table.column_names.index("y"), "y", [moved]), file)
        assert sums_error(made) > 0.01
        assert optimality_error(data, made) == pytest.approx(0.5)
