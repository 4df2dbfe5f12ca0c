"""Print the oldest Python that pyproject.toml allows, and its packages pinned to their bounds."""

import re
from pathlib import Path

try:
    import tomllib
except ImportError:  # before Python 3.11
    from pip._vendor import tomli as tomllib

EXTRAS = ("graph", "frames", "plot", "test")

project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
wanted = [*project["dependencies"]]
for extra in EXTRAS:
    wanted += project["optional-dependencies"][extra]
bounds = [re.fullmatch(r"([\w-]+)>=([\w.]+)", each) for each in wanted if "[" not in each]
if None in bounds:
    raise SystemExit("every dependency must have the form name>=version")
print(project["requires-python"].removeprefix(">="), *(f"{b[1]}=={b[2]}" for b in bounds))
