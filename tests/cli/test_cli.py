from __future__ import annotations

import json
import subprocess
import sys

import pytest

import gmtree
from gmtree import bench, cli
from gmtree.bench.report import Check, Report
from gmtree.bench.settings import Settings

STAGES = ["bench", "stages", "--dataset", "SynData", "--nodes", "500", "--repeat", "1"]


def run(capsys, *argv: str) -> tuple[int, str, str]:
    status = cli.main(argv)
    return (status, *capsys.readouterr())


def refused(capsys, *argv: str) -> str:
    with pytest.raises(SystemExit) as stopped:
        cli.main(argv)
    assert stopped.value.code == 2
    return capsys.readouterr().err


def test_version_and_help(capsys):
    for option, text in (("--version", f"gmtree {gmtree.__version__}"), ("--help", "bench")):
        with pytest.raises(SystemExit) as stopped:
            cli.main([option])
        assert stopped.value.code == 0
        assert text in capsys.readouterr().out


def test_as_a_module():
    done = subprocess.run(
        [sys.executable, "-m", "gmtree", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"gmtree {gmtree.__version__}\n"


def test_without_a_command(capsys):
    assert "COMMAND" in refused(capsys)


def test_table_on_standard_output_and_nothing_else(capsys):
    status, out, err = run(capsys, *STAGES)
    assert status == 0
    assert out.startswith("Construction against post-processing\n")
    assert "SynData" in out
    assert "Census2010" not in out
    assert err == ""


def test_json_instead(capsys):
    _, out, _ = run(capsys, *STAGES, "--json")
    found = json.loads(out)
    assert found["benchmark"] == "stages"
    assert found["settings"]["datasets"] == ["syndata"]
    assert found["settings"]["nodes"] == 500


def test_json_into_a_file_besides(capsys, tmp_path):
    file = tmp_path / "found.json"
    _, out, _ = run(capsys, *STAGES, "--json", str(file))
    assert "SynData" in out
    assert json.loads(file.read_text())["benchmark"] == "stages"


def test_all_into_a_folder(capsys, tmp_path):
    _, out, err = run(capsys, *STAGES, "--out", str(tmp_path / "results"))
    assert "SynData" in out
    names = {path.name for path in (tmp_path / "results").iterdir()}
    assert names == {"stages.json", "stages.md"}
    assert all(name in err for name in names)


def test_all_benchmarks_where_none_is_named(capsys, monkeypatch):
    ran = []

    def measure(name, settings, stream):
        ran.append((name, settings.quick))
        return Report(name, name, settings)

    monkeypatch.setattr(bench, "measure", measure)
    status, out, _ = run(capsys, "bench", "--quick", "--json")
    assert status == 0
    assert ran == [(name, True) for name in bench.BENCHMARKS]
    assert [found["benchmark"] for found in json.loads(out)] == list(bench.BENCHMARKS)


@pytest.mark.parametrize(("about_results", "status"), [(True, 1), (False, 0)])
def test_status_tells_wrong_results_but_not_slow_ones(capsys, monkeypatch, about_results, status):
    report = Report("bars", "", Settings())
    report.add([Check("claim", 3, 2, about_results=about_results)])
    monkeypatch.setattr(bench, "measure", lambda *_: report)
    assert run(capsys, "bench", "bars")[0] == status


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["everything"], "invalid choice: 'everything'"),
        (["--dataset", "moon"], "invalid choice: 'moon'"),
        (["--nodes", "0"], "--nodes: must be a whole number of at least 1, not '0'"),
        (["--nodes", "many"], "--nodes: must be a whole number of at least 1, not 'many'"),
        (["--repeat", "1.5"], "--repeat: must be a whole number of at least 1, not '1.5'"),
        (["--nodes", "inf"], "--nodes: must be a whole number of at least 1, not 'inf'"),
    ],
)
def test_bad_options(capsys, options, message):
    assert message in refused(capsys, "bench", *options)


def test_numbers_as_people_write_them():
    args = cli.parser().parse_args(["bench", "--nodes", "1e6", "--repeat", "1_0"])
    assert (args.nodes, args.repeat) == (10**6, 10)


def test_errors_are_told_without_a_traceback(capsys, tmp_path):
    options = ["bench", "stages", "--dataset", "census2010", "--census-files", str(tmp_path)]
    status, out, err = run(capsys, *options)
    assert status == 2
    assert out == ""
    assert err.startswith("gmtree: error: Argument 'path' must")
    status, _, err = run(capsys, *options, "--nodes", "500")
    assert status == 2
    assert "'nodes' must be None with 'path'" in err


def test_output_is_refused_before_any_work(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(bench, "measure", None)
    for option in (
        ["--json", str(tmp_path / "none" / "x.json")],
        ["--out", str(tmp_path / "file")],
    ):
        (tmp_path / "file").write_text("")
        status, out, err = run(capsys, *STAGES, *option)
        assert (status, out) == (2, "")
        assert err.startswith("gmtree: error: ")


def test_an_interrupt_while_modules_load_ends_quietly(capsys, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "import_module", interrupted)
    assert run(capsys, "demo") == (130, "", "")


def test_too_little_memory_is_told_in_one_line(capsys, monkeypatch):
    def too_large(*_):
        raise MemoryError

    monkeypatch.setattr(bench, "measure", too_large)
    status, _, err = run(capsys, "bench", "table")
    assert (status, err) == (2, "gmtree: error: there is not enough memory.\n")


def test_an_interrupt_ends_quietly(capsys, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(bench, "measure", interrupted)
    assert run(capsys, "bench", "table") == (130, "", "")


def test_readers_may_leave_early(tmp_path):
    command = [sys.executable, "-m", "gmtree", "demo", "--nodes", "1000"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=tmp_path, **pipes) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


def test_real_files(capsys, monkeypatch):
    found = {}

    def measure(name, settings, stream):
        found.update(settings.files)
        return Report(name, name, settings)

    monkeypatch.setattr(bench, "measure", measure)
    run(capsys, "bench", "table", "--census-files", "a", "--taxi-files", "b")
    assert found == {"census2010": "a", "nyctaxi": "b"}
