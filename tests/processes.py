"""Python in a new process, with other environment variables."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def run(*command: str, cwd: Path | None = None, **changes: str | None) -> str:
    """Run Python with some environment variables set, or unset if None; return its output."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    for name, value in changes.items():
        env.pop(name, None)
        if value is not None:
            env[name] = value
    done = subprocess.run(
        [sys.executable, *command],
        env=env,
        cwd=cwd or ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-5000:]}\n{done.stderr[-5000:]}"
    return done.stdout


def run_tests(*options: str, **changes: str) -> None:
    """Run some of the property tests again, with few examples."""
    quick = ("-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--hypothesis-profile=small")
    assert "passed" in run(*quick, "-m", "not large", *options, **changes)
