"""Pictures with the right labels of axes; outlines of trees; notebooks."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pytest

import gmtree as gm

mpl.use("Agg")
TREE = gm.Tree.from_levels(
    ["NY", "NY", "VT"], ["Albany", "Orange", "Orange"], levels=["state", "county"]
)
X = TREE.aggregate([304, 372, 29])


@pytest.fixture(autouse=True)
def _close_figures():
    import matplotlib.pyplot as plt

    yield
    plt.close("all")


def ink(ax):
    """How many pixels are not white."""
    ax.figure.canvas.draw()
    pixels = np.asarray(ax.figure.canvas.buffer_rgba())
    return int((pixels[..., :3] < 250).any(axis=-1).sum())


def texts(ax):
    return {t.get_text() for t in ax.texts}


def test_icicle_has_a_box_as_wide_as_its_leaves_for_each_node():
    ax = gm.plot.icicle(TREE, X, unit="people")
    assert ink(ax) > 10_000
    spans = {(round(p.get_x()), p.get_y()): round(p.get_width()) for p in ax.patches}
    assert spans == {
        (0, 0): 705,
        (0, 1): 676,
        (676, 1): 29,
        (0, 2): 304,
        (304, 2): 372,
        (676, 2): 29,
    }
    assert ax.get_xlabel() == "people"
    assert [t.get_text() for t in ax.get_yticklabels()] == ["total", "state", "county"]
    assert "NY\n676" in texts(ax)
    assert ink(gm.plot.icicle(gm.shapes.complete(3, 4))) > 10_000


def test_icicle_of_a_tree_in_any_numbering():
    tree = gm.Tree.from_parents([3, 3, 4, -1, 3])
    ax = gm.plot.icicle(tree, tree.aggregate([1, 2, 4]))
    spans = sorted((p.get_y(), p.get_x(), p.get_width()) for p in ax.patches)
    assert spans == [(0, 0, 7), (1, 0, 1), (1, 1, 2), (1, 3, 4), (2, 3, 4)]


def test_sums_are_red_where_children_add_up_to_something_else():
    ax = gm.plot.sums(TREE, X)
    assert ink(ax) > 10_000
    assert {"total\n705", "NY\n676", "VT\n29", "Albany\n304"} <= texts(ax)
    assert not any("children" in text for text in texts(ax))
    ax = gm.plot.sums(TREE, [705, 677.5, 29, 304, 372, 29], [0.5, 2, 2, 2, 2, 1.25])
    assert {"total\n705 ± 0.5\nchildren: 706.5", "NY\n677.5 ± 2\nchildren: 676"} <= texts(ax)
    assert any("± 1.2" in text for text in texts(ax))
    # Rounding errors are not contradictions.
    ax = gm.plot.sums(gm.shapes.star(4), [0.3, 0.1, 0.1, 0.1])
    assert not any("children" in text for text in texts(ax))
    with pytest.raises(ValueError, match="'std_error' must be finite; node 1 is nan"):
        gm.plot.sums(gm.shapes.star(2), [1, 1], [1, np.nan])


def test_node_link_stands_at_the_distance_from_the_root():
    tree = gm.Tree.from_newick("((cat:1,lion:2)feline:3,dog:7);")
    ax = gm.plot.node_link(tree, [1, 2, 3, 4, 5], unit="My")
    assert ink(ax) > 1000
    assert ax.collections[0].get_offsets()[:, 0].tolist() == [0, 3, 4, 5, 7]
    assert ax.get_xlabel() == "distance from the root (My)"
    assert {"cat", "lion", "dog", "feline"} <= texts(ax)
    ax = gm.plot.node_link(TREE)
    assert [t.get_text() for t in ax.get_xticklabels()] == ["total", "state", "county"]


def test_pictures_of_a_release_and_a_plan():
    r = gm.release(TREE, [304, 372, 29], epsilon=1, integer=True)
    ax = r.plot(unit="people")
    assert ink(ax) > 1000
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("noisy (people)", "consistent (people)")
    assert ax.get_title().endswith("epsilon = 1, 95 % intervals")
    low, high = r.interval()
    ends = np.concatenate([np.array(c.get_segments())[:, :, 1] for c in ax.collections])
    assert sorted(ends.tolist()) == sorted(np.column_stack([low, high]).tolist())
    drawn = np.concatenate([line.get_xydata() for line in ax.lines[:-1]])
    assert sorted(drawn.tolist()) == sorted(np.column_stack([r.noisy, r.values]).tolist())
    assert [t.get_text() for t in ax.get_legend().get_texts()] == [
        "county (3)", "state (2)", "total (1)",
    ]  # fmt: skip
    partly = gm.release(TREE, [304, 372, 29], epsilon=1, shares=[0, 1, 1])
    assert sum(len(line.get_xydata()) for line in partly.plot().lines[:-1]) == 5
    ax = r.plan.plot()
    assert ink(ax) > 1000
    assert ax.lines[1].get_ydata().tolist() == r.plan.std_error.tolist()
    assert ax.get_title() == "Expected error by level, epsilon = 1"
    assert np.isnan(partly.plan.plot().lines[0].get_ydata()[0])


def test_large_trees_are_sampled_or_refused():
    tree = gm.shapes.complete(2, 16)
    x = np.arange(tree.n, dtype=float)
    ax = gm.plot.noisy_against_consistent(tree, x, x)
    points = np.concatenate([line.get_xdata() for line in ax.lines[:-1]])
    assert points.size <= 20_000
    assert set(range(31)) <= set(points.tolist())
    assert ax.get_title().endswith("a sample")
    for draw in (gm.plot.icicle, gm.plot.node_link):
        with pytest.raises(ValueError, match="'tree' must have at most 3000 nodes"):
            draw(tree)


def test_axes_are_drawn_on():
    import matplotlib.pyplot as plt

    _, ax = plt.subplots()
    assert gm.plot.icicle(TREE, ax=ax) is ax
    assert gm.plan(TREE, epsilon=1).plot(ax=ax) is ax


def test_wrong_pictures():
    with pytest.raises(TypeError, match="'tree' must be a Tree"):
        gm.plot.icicle([1, 2])
    with pytest.raises(ValueError, match="must not be negative to be widths; node 3"):
        gm.plot.icicle(TREE, [1, 1, 1, -1, 1, 1])
    with pytest.raises(ValueError, match="must not be negative to be areas; node 5 has -2"):
        gm.plot.node_link(TREE, [1, 1, 1, 1, 1, -2])
    with pytest.raises(
        ValueError, match="must have finite sums; the sum of the children of node 1"
    ):
        gm.plot.sums(TREE, [0, 0, 0, 1.5e308, 1.5e308, 0])
    with pytest.raises(ValueError, match="must have a positive and finite sum"):
        gm.plot.icicle(TREE, np.zeros(6))
    with pytest.raises(ValueError, match="'values' must be finite; node 0"):
        gm.plot.node_link(TREE, [np.nan, 1, 1, 1, 1, 1])
    with pytest.raises(TypeError, match="'source' must be a Plan or a Release"):
        gm.plot.error_by_level(TREE)


def test_outline_tells_what_it_leaves_out(capsys):
    tree = gm.Tree.from_levels([f"a{k}" for k in range(7)], [f"b{k}" for k in range(7)])
    assert tree.outline(depth=3, children=2).splitlines() == [
        "total", "├── a0", "│   └── b0", "├── a1", "│   └── b1", "└── ... 5 more",
    ]  # fmt: skip
    assert tree.outline(depth=2, children=1).splitlines() == [
        "total", "├── a0", "│   └── ... 1 below", "└── ... 6 more",
    ]  # fmt: skip
    assert tree.outline(depth=1) == "total\n└── ... 14 below"
    tree.show(tree.aggregate(np.arange(7) + 0.5))
    assert capsys.readouterr().out.splitlines()[0].split() == ["total", "24.5"]
    assert gm.shapes.star(3).outline() == "0\n├── 1\n└── 2"
    deep = gm.shapes.chain(5_000)
    assert len(deep.outline(depth=2_000).splitlines()) == 2_001


def test_notebooks_show_what_is_escaped():
    tree = gm.Tree.from_levels(["<b>", "c"])
    assert "&lt;b&gt;" in tree._repr_html_()
    assert "3 nodes, 2 leaves, 2 levels" in tree._repr_html_()
    r = gm.release(tree, [1, 2], epsilon=1)
    page = r._repr_html_()
    assert "epsilon = 1" in page
    assert f"{round(float(r.values[0]), 2):,.6g}</td>" in page
    assert f"{round(float(r.std_error[2]), 2):,.6g}</td>" in page
    assert "estimate" not in page
    assert "estimate" in gm.release(tree, [1, 2], epsilon=1, integer=True)._repr_html_()
    assert "Privacy ledger" in r.ledger._repr_html_()
    assert r.plan._repr_html_().startswith("<pre")


def test_labels_and_units_with_dollar_signs_are_shown_as_they_are():
    label, level = r"$\frac", "$^$"
    tree = gm.Tree.from_levels(
        {level: [f"{label}$", "VT"], "price_$": [f"{label}1$", f"{label}2$"]},
        levels=[level, "price_$"],
    )
    r = gm.release(tree, [300, 4], epsilon=1)
    unit = r"US$ $\frac"
    assert ink(gm.plot.icicle(tree, r.noisy - r.noisy.min(), unit=unit)) > 1000
    assert ink(gm.plot.sums(tree, r.values, unit=unit)) > 1000
    assert ink(gm.plot.node_link(tree, unit=unit)) > 1000
    assert ink(gm.plot.noisy_against_consistent(tree, r.noisy, r.values, unit=unit)) > 1000
    assert ink(gm.plot.error_by_level(r, unit=unit)) > 1000


def test_long_names_and_large_numbers_are_shortened():
    names = [f"Country {k}" for k in range(13)]
    tree = gm.Tree.from_levels([*names, "Saint Vincent and the Grenadines"])
    people = tree.aggregate(np.full(14, 30_000_000.5))
    assert {"total\n420,000,007", "Saint…nes\n30 M"} <= texts(gm.plot.sums(tree, people))
    ax = gm.plot.icicle(tree, people)
    ax.figure.canvas.draw()
    assert [t.get_text() for t in ax.get_xticklabels()][:3] == ["0", "50 M", "100 M"]
    ax = gm.plan(gm.shapes.star(3), epsilon=1).plot()
    assert [t.get_text() for t in ax.get_xticklabels()] == ["level 1\n1", "level 2\n2"]
    assert "30,000,000</td>" in gm.release(tree, [30_000_000] * 14, epsilon=9**9)._repr_html_()


def test_of_many_residuals_the_largest_are_drawn():
    tree = gm.shapes.complete(2, 16)
    z = np.zeros(tree.n)
    z[[3, 40_000]] = 50.0, np.nan
    ax = gm.plot.residuals_by_level(tree, z)
    assert ax.lines[0].get_ydata().max() == 50
    assert len(ax.lines[0].get_ydata()) == 20_000


def boxes_of_texts(ax):
    """Where each text is drawn, in pixels."""
    ax.figure.canvas.draw()
    return {t.get_text(): t.get_window_extent() for t in ax.texts if t.get_text()}


@pytest.mark.parametrize("leaves", [14, 58, 200])
def test_no_text_of_sums_leaves_its_box(leaves):
    names = [f"the republic of {k}" for k in range(leaves)]
    tree = gm.Tree.from_levels([k // 7 for k in range(leaves)], names, levels=["part", "country"])
    x = tree.aggregate(np.full(leaves, 1_234_567_890))
    ax = gm.plot.sums(tree, x, np.full(tree.n, 1234.5), unit="people")
    assert ax.get_xlabel() == "values in people ± standard error"
    texts = list(boxes_of_texts(ax).values())
    patches = [p.get_window_extent() for p in ax.patches]
    assert len(texts) > 2
    for text in texts:
        assert any(
            box.x0 - 1 <= text.x0 and text.x1 <= box.x1 + 1
            and box.y0 - 1 <= text.y0 and text.y1 <= box.y1 + 1
            for box in patches
        )  # fmt: skip


def test_names_of_a_high_tree_do_not_overlap():
    names = [f"taxon number {i}" for i in range(37)]
    tree = gm.Tree.from_parents(gm.shapes.caterpillar(37).parent, labels=names)
    drawn = list(boxes_of_texts(gm.plot.node_link(tree)).values())
    assert len(drawn) >= 19
    assert not any(a.overlaps(b) for k, a in enumerate(drawn) for b in drawn[:k])


def test_lines_of_several_queries_are_beside_each_other():
    plan = gm.plan(
        gm.shapes.star(9), axes={"sex": 2, "age": 3}, queries=[(), ("sex",), ("age",)], rho=1
    )
    ax = plan.plot()
    places = [tuple(line.get_xdata()) for line in ax.lines]
    assert len(set(places)) == 3


def test_numbers_of_the_icicle_are_written_without_exponents():
    ax = gm.plot.icicle(TREE, TREE.aggregate([363_640.5, 600.25, 897_782.5]))
    found = {text.split("\n")[-1] for text in texts(ax)}
    assert found == {"1,262,023", "364,240.8", "363,640.5", "897,782.5"}


def test_different_sums_are_written_with_different_digits():
    ax = gm.plot.sums(gm.shapes.star(3), [42.61, 20.3, 22.29])
    assert "0\n42.61\nchildren: 42.59" in texts(ax)


def test_axes_name_a_unit_only_if_there_is_one():
    ax = gm.plot.noisy_against_consistent(TREE, X, X)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("noisy", "consistent")


def test_nodes_of_trees_without_labels_show_their_numbers():
    tree = gm.Tree.from_linkage([[0, 1, 0.5, 2], [2, 3, 0.9, 3]])
    assert {"0", "1", "2"} <= texts(gm.plot.node_link(tree))
