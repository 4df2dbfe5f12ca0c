"""Print the oldest Python that pyproject.toml allows, and its packages pinned to their bounds."""

import re
from pathlib import Path

try:
    import tomllib
except ImportError:  # before Python 3.11
    from pip._vendor import tomli as tomllib

EXTRAS = ("graph", "frames", "plot")
# Of the extra `test` only what runs the tests: the other packages are those compared with.
TOOLS = ("pytest", "pytest-xdist", "hypothesis", "polars")

project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
optional = project["optional-dependencies"]
wanted = [*project["dependencies"], *(each for extra in EXTRAS for each in optional[extra])]
wanted += [each for each in optional["test"] if each.partition(">=")[0] in TOOLS]
bounds = [re.fullmatch(r"([\w-]+)>=([\w.]+)", each) for each in wanted]
if None in bounds:
    raise SystemExit("every dependency must have the form name>=version")
print(project["requires-python"].removeprefix(">="), *(f"{b[1]}=={b[2]}" for b in bounds))
