from __future__ import annotations

import tracemalloc
import zipfile
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from reference import datasets as reference

import gmtree as gm
from gmtree import datasets
from gmtree.datasets import census, dataset, files, taxi

DATA = Path(__file__).parents[1] / "data"
STATES = [DATA / "census" / f"{state}geo2010.sf1" for state in ("qa", "qb")]
MONTHS = [DATA / "taxi" / f"trip_data_{month}.csv" for month in (1, 2)]


def level_sizes(tree: gm.Tree) -> list[int]:
    return np.bincount(tree.depth)[1:].tolist()


@pytest.fixture
def small_chunks(monkeypatch):
    """Pieces that end within lines, and some lines longer than a piece."""
    monkeypatch.setattr(files, "CHUNK", 333)


# --------------------------------------------------------------------------- what a data set is


def test_a_data_set_begins_with_tree_and_counts():
    for data in (datasets.census2010(nodes=1000), datasets.syndata(height=5)):
        tree, counts, *rest = data
        assert tree is data.tree
        assert counts is data.counts
        assert rest == [data.name, data.is_real, data.description, data.unit]
        assert counts.shape == (tree.n_leaves,)
        assert counts.dtype == np.int64
        assert counts.min() >= 0
        assert tree.is_canonical
        assert data.name in repr(data)
        assert data.description in repr(data)


def test_a_look_alike_says_so():
    census = datasets.census2010(nodes=100)
    assert not census.is_real
    assert "look-alike, not census data" in repr(census)


@pytest.mark.parametrize("total", [0, 1, 7, 10**12])
def test_share_out(total):
    weights = np.random.default_rng(0).lognormal(sigma=2, size=1000)
    weights[100:200] = 0
    shares = dataset.share_out(total, weights)
    assert shares.sum() == total
    assert np.all(shares[100:200] == 0)
    assert np.abs(shares - total * weights / weights.sum()).max() <= 1 + 1e-9 * total


# --------------------------------------------------------------------------- synthetic data


def test_syndata():
    tree, counts, *_ = data = datasets.syndata(height=16)
    assert tree == gm.shapes.complete(2, 16)
    assert not data.is_real
    assert abs(counts.mean() - 100) < 5 * 10 / np.sqrt(counts.size)
    assert abs(counts.var() - 100) < 5 * 100 * np.sqrt(2 / counts.size)
    assert np.array_equal(counts, datasets.syndata(height=16).counts)
    assert not np.array_equal(counts, datasets.syndata(height=16, rng=1).counts)


# --------------------------------------------------------------------------- census look-alike


@pytest.mark.large
def test_census_look_alike_of_full_size():
    tree, counts, *_ = datasets.census2010()
    assert (tree.n, tree.n_internal, tree.n_leaves) == (11_802_162, 646_676, 11_155_486)
    assert tree.height == 8
    assert level_sizes(tree) == list(census.LEVEL_SIZES)
    assert counts.sum() == 312_471_327
    assert abs(np.mean(counts == 0) - 0.4) < 0.001
    check_skew(tree, counts)


def check_skew(tree: gm.Tree, counts: np.ndarray) -> None:
    blocks = tree.child_count[tree.node_height == 2]
    assert np.median(blocks) < 0.75 * blocks.mean()
    assert blocks.max() > 10 * blocks.mean()
    inhabited = counts[counts > 0]
    assert np.median(inhabited) < 0.5 * inhabited.mean()


@pytest.mark.parametrize("nodes", [8, 9, 30, 321, 1000, 50_000, 500_000])
def test_census_look_alike_of_other_sizes(nodes):
    tree, counts, *_ = datasets.census2010(nodes=nodes)
    assert tree.n == nodes
    assert tree.height == 8
    assert np.all(tree.depth[tree.leaves] == 8)
    assert tree.is_canonical
    if nodes >= 1000:
        assert tree.n_leaves / nodes == pytest.approx(11_155_486 / 11_802_162, abs=0.003)
        assert counts.mean() == pytest.approx(312_471_327 / 11_155_486, rel=1e-3)
    if nodes >= 50_000:
        assert abs(np.mean(counts == 0) - 0.4) < 0.02
        check_skew(tree, counts)


def test_census_sizes_of_levels():
    for nodes in [*range(8, 4000, 13), 10**6, 11_802_161, 11_802_163, 10**8]:
        sizes = census._scaled_sizes(nodes)
        assert sum(sizes) == nodes
        assert sizes[0] == 1
        assert all(above <= below for above, below in pairwise(sizes))
    assert census._scaled_sizes(11_802_162) == census.LEVEL_SIZES


def test_census_look_alike_is_the_same_every_time():
    first, again = (datasets.census2010(nodes=5000) for _ in range(2))
    assert first.tree == again.tree
    assert np.array_equal(first.counts, again.counts)
    other = datasets.census2010(nodes=5000, rng=np.random.default_rng(1))
    assert not np.array_equal(first.tree.parent, other.tree.parent)


# --------------------------------------------------------------------------- census files


def check_census(data: datasets.Dataset, paths: list[Path]) -> None:
    rows = reference.blocks(paths)
    tree = gm.Tree.from_levels(["US"] * len(rows), *zip(*(codes for codes, _ in rows), strict=True))
    assert np.array_equal(data.tree.parent, tree.parent)
    assert data.counts.tolist() == [people for _, people in rows]
    assert data.counts.dtype == np.int64
    assert data.tree.height == 8
    assert data.tree.is_canonical
    assert data.is_real
    assert "look-alike" not in repr(data)


def test_fixture_is_in_the_layout():
    for path, end in zip(STATES, (b"\n", b"\r\n"), strict=True):
        *lines, last = path.read_bytes().split(end)
        assert last == b""
        assert {len(line) for line in lines} == {500}
        # Latin-1, as in the real files: one byte a character.
        assert any(b"\xf1" in line for line in lines)


@pytest.mark.parametrize("paths", [STATES[:1], STATES[1:], STATES, STATES[::-1]])
def test_census_files(paths):
    check_census(datasets.census2010(paths), paths)
    if len(paths) == 1:
        check_census(datasets.census2010(paths[0]), paths)
        check_census(datasets.census2010(str(paths[0])), paths)


def test_census_in_small_pieces(small_chunks):
    check_census(datasets.census2010(STATES), STATES)


def test_census_totals_agree_with_the_other_levels():
    """Sums over the tree are the numbers the file itself gives for states and counties."""
    tree, counts, *_ = datasets.census2010(STATES, labels=True)
    values = tree.aggregate(counts)
    seen = 0
    for path in STATES:
        for line in path.read_bytes().decode("latin-1").splitlines():
            path_of = {
                "040": [(27, 29)],
                "050": [(27, 29), (29, 32)],
                "060": [(27, 29), (29, 32), (36, 41)],
                "070": [(27, 29), (29, 32), (36, 41), (45, 50)],
                "080": [(27, 29), (29, 32), (36, 41), (45, 50), (54, 60)],
            }.get(line[8:11])
            if path_of and line[11:13] == "00":
                node = tree.node(tuple(line[a:b] for a, b in path_of))
                assert values[node] == int(line[318:327])
                seen += 1
    assert seen == sum(level_sizes(tree)[1:6])


def test_census_labels():
    data = datasets.census2010(STATES, labels=True)
    plain = datasets.census2010(STATES)
    assert plain.tree.labels is None
    assert np.array_equal(data.tree.parent, plain.tree.parent)
    assert data.tree.level_names == census.LEVELS
    rows = reference.blocks(STATES)
    for leaf, (codes, _) in zip(data.tree.leaves, rows, strict=True):
        assert data.tree.path(leaf) == ("US", *codes)


def test_census_archive_as_shipped(tmp_path):
    for path in STATES:
        archive = tmp_path / f"{path.name[:2]}2010.sf1.zip"
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as writer:
            writer.writestr(f"{path.name[:2]}000012010.sf1", "SF1ST,QA,000,01,0000001,5\n")
            writer.write(path, path.name)
            writer.writestr(f"{path.name[:2]}2010.sf1.prd.packinglist.txt", "#CONTENT\n")
    check_census(datasets.census2010(tmp_path), STATES)
    check_census(datasets.census2010(tmp_path / "qa2010.sf1.zip"), STATES[:1])
    # The same file beside its archive counts once.
    (tmp_path / "Q").mkdir()
    (tmp_path / "Q" / STATES[0].name).write_bytes(STATES[0].read_bytes())
    check_census(datasets.census2010(tmp_path), STATES)


def test_census_last_line_without_end(tmp_path):
    path = tmp_path / "qageo2010.sf1"
    lines = [line for line in STATES[0].read_bytes().splitlines() if line[8:11] == b"101"]
    path.write_bytes(b"\n\n" + b"\n".join(lines))
    check_census(datasets.census2010(path), STATES[:1])


def test_census_is_read_in_bounded_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "CHUNK", 1 << 16)
    path = tmp_path / "qageo2010.sf1"
    text = STATES[0].read_bytes()
    others = b"\n".join(line for line in text.splitlines() if line[8:11] != b"101") + b"\n"
    path.write_bytes(text + others * 600)
    assert path.stat().st_size > 5 << 20
    tracemalloc.start()
    try:
        data = datasets.census2010(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    check_census(data, STATES[:1])
    assert peak < 2 << 20


def spoil(path: Path, tmp_path: Path, change) -> Path:
    """The file with its first block record changed."""
    lines = path.read_bytes().splitlines()
    k = next(k for k, line in enumerate(lines) if line[8:11] == b"101")
    lines[k] = change(lines[k])
    spoilt = tmp_path / "spoiltgeo2010.sf1"
    spoilt.write_bytes(b"\n".join(lines) + b"\n")
    return spoilt


@pytest.mark.parametrize(
    "change",
    [
        lambda line: line[:320],
        lambda line: line[:54] + b"00 101" + line[60:],
        lambda line: line[:27] + b"9A" + line[29:],
        lambda line: line[:318] + b"         " + line[327:],
        lambda line: line[:318] + b"   12    " + line[327:],
        lambda line: line[:318] + b"       -5" + line[327:],
    ],
)
def test_a_spoilt_census_record_is_named(tmp_path, change):
    path = spoil(STATES[0], tmp_path, change)
    with pytest.raises(ValueError, match=r"line 8 of .*spoiltgeo2010.sf1 does not"):
        datasets.census2010(path)


def test_numbers_filled_with_zeros(tmp_path):
    path = spoil(STATES[0], tmp_path, lambda line: line[:318] + b"000000012" + line[327:])
    assert datasets.census2010(path).counts[0] == 12


# --------------------------------------------------------------------------- taxi look-alike


@pytest.mark.large
def test_taxi_look_alike_of_a_month():
    tree, counts, *_ = data = datasets.nyctaxi(months=1)
    assert not data.is_real
    assert "look-alike, not taxi data; 1 month" in repr(data)
    assert tree.n_leaves == 31 * 86_400
    assert counts.sum() == pytest.approx(86_687_775 * 31 / 365, rel=0.02)
    families = np.bincount(tree.child_count[tree.internal], minlength=6)
    assert families[:2].sum() == 0
    np.testing.assert_allclose(families[2:] / families.sum(), [0.4, 0.3, 0.2, 0.1], atol=0.005)
    days = counts.reshape(31, 24, 3600).sum(axis=2)
    # More rides in the evening than before dawn, and on Saturday 5 than on Monday 7 January.
    assert days[:, 19].min() > 3 * days[:, 4].max()
    assert days[4].sum() > 1.1 * days[6].sum()
    # As Poisson counts have it, the variance within a quarter of an hour is the mean.
    quiet = counts.reshape(31, 96, 900)[:, 78]
    assert quiet.var(axis=1).mean() == pytest.approx(quiet.mean(), rel=0.05)


@pytest.mark.large
def test_taxi_look_alike_of_the_year():
    year = taxi._look_alike(12, np.random.default_rng(2013))
    assert year.size == 31_536_000
    assert year.sum() == 86_687_775
    assert year.min() == 0
    for months in (1, 2):
        counts = datasets.nyctaxi(months=months).counts
        assert np.array_equal(counts, year[: counts.size])


@pytest.mark.large
def test_taxi_look_alike_is_the_same_every_time():
    first, again, other = (datasets.nyctaxi(months=1, rng=rng) for rng in (2013, 2013, 1))
    assert first.tree == again.tree
    assert np.array_equal(first.counts, again.counts)
    assert first.tree != other.tree


@pytest.mark.parametrize("total", [30, 100, 110, 5000])
def test_correction_to_a_total(total):
    counts = np.ones(100, dtype=np.int64)
    counts[::10] = 0
    counts[5] = 11
    taxi._correct(counts, total, np.random.default_rng(0))
    assert counts.min() >= 0
    assert counts.sum() == total


# --------------------------------------------------------------------------- taxi files


def rides(path, months: int) -> np.ndarray:
    """What `nyctaxi` counts, without the tree of millions of nodes above it."""
    counts, _ = taxi._read_rides(path, months)
    return counts


def check_rides(counts: np.ndarray, months: int, paths: list[Path]) -> None:
    assert counts.size == sum(taxi.DAYS[:months]) * 86_400
    expected = {t: k for t, k in reference.pickups(paths).items() if t < counts.size}
    seconds = np.flatnonzero(counts)
    assert dict(zip(seconds.tolist(), counts[seconds].tolist(), strict=True)) == expected
    assert len(expected) > 10


@pytest.mark.large
def test_taxi_tree():
    tree, counts, *_ = data = datasets.nyctaxi(DATA / "taxi", 2)
    check_rides(counts, 2, MONTHS)
    assert tree.n_leaves == counts.size
    assert counts.dtype == np.int64
    assert data.is_real
    assert data.description == "2013 trip records, vendor CMT, 2 files; 2 months"


def test_taxi_files():
    check_rides(rides(DATA / "taxi", months=2), 2, MONTHS)
    check_rides(rides(MONTHS, 2), 2, MONTHS)
    # The second file is not even opened for the first month.
    check_rides(rides(DATA / "taxi", months=1), 1, MONTHS[:1])
    check_rides(rides(str(MONTHS[0]), months=1), 1, MONTHS[:1])


def test_taxi_in_small_pieces(small_chunks):
    check_rides(rides(DATA / "taxi", months=2), 2, MONTHS)


def test_taxi_archives(tmp_path):
    for path in MONTHS:
        with zipfile.ZipFile(tmp_path / f"{path.name}.zip", "w", zipfile.ZIP_DEFLATED) as writer:
            writer.write(path, path.name)
    check_rides(rides(tmp_path, months=2), 2, MONTHS)


def test_taxi_file_of_another_name(tmp_path):
    path = tmp_path / "rides.csv"
    path.write_bytes(MONTHS[0].read_bytes())
    check_rides(rides([path], months=1), 1, MONTHS[:1])
    # Rides of later months are left out.
    first, second = (path.read_text().splitlines() for path in MONTHS)
    path.write_text("\n".join([*first, *second[1:]]))
    check_rides(rides(path, months=1), 1, MONTHS)


def test_taxi_columns_are_found_by_name(tmp_path):
    path = tmp_path / "rides.csv"
    path.write_text(
        "\ufeffpickup_datetime,vendor_id,more\n"
        "2013-01-01 00:00:01,CMT,\n\n"
        "2013-01-01 00:00:02,VTS,\n"
        "2013-01-01 00:00:03,CM,\n"
        "2013-01-01 00:00:03,CMX,\n"
        "2013-01-01 00:00:01,CMT,x\n",
        encoding="utf-8",
    )
    counts = rides(path, months=1)
    assert counts[1] == counts.sum() == 2
    path.write_text("vendor_id,pickup_datetime\nCMT,2013-01-31 23:59:59\n")
    assert rides(path, months=1)[-1] == 1


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("CMT", "the columns that the first line names"),
        ("a,CMT", "the columns that the first line names"),
        ("a,CMT,2013-01-01", "a time of 2013"),
        ("a,CMT,2012-01-01 00:00:00", "a time of 2013"),
        ("a,CMT,2013-13-01 00:00:00", "a time of 2013"),
        ("a,CMT,2013-00-01 00:00:00", "a time of 2013"),
        ("a,CMT,2013-02-29 00:00:00", "a time of 2013"),
        ("a,CMT,2013-02-00 00:00:00", "a time of 2013"),
        ("a,CMT,2013-02-01 24:00:00", "a time of 2013"),
        ("a,CMT,2013-02-01 00:60:00", "a time of 2013"),
        ("a,CMT,2013-02-01 00:00:60", "a time of 2013"),
        ("a,CMT,2013-02-01T00:00:00", "a time of 2013"),
        ("a,CMT,2013-02-01 0:00:00,0", "a time of 2013"),
    ],
)
def test_a_spoilt_ride_is_named(tmp_path, line, message):
    path = tmp_path / "rides.csv"
    good = "a,CMT,2013-01-01 00:00:00\n"
    path.write_text("medallion,vendor_id,pickup_datetime\n" + good + line + "\n" + good)
    with pytest.raises(ValueError, match=rf"must hold {message}.*line 3 of .*rides.csv does not"):
        datasets.nyctaxi(path, months=1)


# --------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: datasets.census2010(nodes=7), "'nodes' must be at least 8, not 7"),
        (
            lambda: datasets.census2010(nodes=10**30),
            "'nodes' must give a tree that fits into memory",
        ),
        (lambda: datasets.census2010(STATES, nodes=100), "'nodes' must be None with 'path'"),
        (lambda: datasets.census2010(labels=True), "'labels' must be False without 'path'"),
        (lambda: datasets.census2010(DATA / "taxi"), "must name geographic headers such as"),
        (lambda: datasets.census2010(MONTHS[0]), "must hold records of summary level 101"),
        (lambda: datasets.census2010(DATA / "nowhere"), "'path' must exist; there is no"),
        (lambda: datasets.census2010([]), "must name geographic headers"),
        (lambda: datasets.census2010([*STATES, STATES[0]]), "each block once; block 92.* twice"),
        (lambda: datasets.nyctaxi(months=0), "'months' must be at least 1"),
        (lambda: datasets.nyctaxi(months=13), "'months' must be at most 12, not 13"),
        (lambda: datasets.nyctaxi(DATA / "taxi"), "there is no trip_data_3.csv"),
        (lambda: datasets.nyctaxi(MONTHS[1], months=2), "there is no trip_data_1.csv"),
        (lambda: datasets.nyctaxi(STATES[0]), "must hold trip records with columns"),
        (lambda: datasets.syndata(height=0), "'height' must be at least 1"),
    ],
)
def test_bad_values(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_empty_files(tmp_path):
    path = tmp_path / "trip_data_1.csv"
    path.touch()
    for load in (datasets.census2010, datasets.nyctaxi):
        with pytest.raises(ValueError, match=r"trip_data_1.csv is empty"):
            load(path)


def test_bad_archives(tmp_path):
    path = tmp_path / "qa2010.sf1.zip"
    path.write_bytes(b"not an archive")
    with pytest.raises(ValueError, match="is a broken zip archive"):
        datasets.census2010(path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as writer:
        writer.write(STATES[0], STATES[0].name)
    packed = path.read_bytes()
    path.write_bytes(packed[:100] + b"\0" * 50 + packed[150:])
    with pytest.raises(ValueError, match="is a broken zip archive"):
        datasets.census2010(path)
    # Mark the member as packed by a method that Python cannot undo.
    other = bytearray(packed)
    central = other.index(b"PK\x01\x02")
    other[8] = other[central + 10] = 9
    path.write_bytes(bytes(other))
    with pytest.raises(ValueError, match=r"opening .*qa2010.sf1.zip failed: .* Unpack it first"):
        datasets.census2010(path)
