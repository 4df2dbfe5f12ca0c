"""Write the guide, the reference and the documents of the repository as a web site.

    python -m gmtree.guide FOLDER

This command needs the extra ``docs``. In a checkout of the repository the README becomes the
landing page.
"""

from __future__ import annotations

import argparse
import ast
import re
import shutil
import warnings
from html import escape, unescape
from importlib import import_module
from pathlib import Path
from types import ModuleType

import gmtree
from gmtree import _validate as check
from gmtree import guide

HERE = Path(__file__).parent
CHECKOUT = HERE.parents[1]
MODULES = (
    "consistency", "frames", "forecast", "privacy", "privacy.testing", "dask", "plot", "shapes",
    "gmc", "baselines", "queries", "datasets",
)  # fmt: skip
# Pages of a checkout that are not docstrings.
PAGES = {"README.md": "index", "CHANGELOG.md": "changes", "CONTRIBUTING.md": "contributing"}


def subjects() -> list[tuple[str, list[str]]]:
    """Each heading of the map in the docstring of gmtree, with the names below it."""
    parts = re.split(r"^(\S.*):\n\n", gmtree.__doc__ or "", flags=re.MULTILINE)
    listed = [re.findall(r"^    (\w+)  +\S", text, flags=re.MULTILINE) for text in parts[2::2]]
    return [(head, names) for head, names in zip(parts[1::2], listed, strict=True) if names]


def address(name: str) -> str:
    """Address of the page of a public name."""
    if name in ("torch", "jax"):
        return "gmtree/guide/layers.html"
    if name == "guide" or name in MODULES:
        return f"gmtree/{name}.html"
    return f"gmtree.html#{name}"


def sidebar(up: str) -> str:
    """HTML with links to all pages, the guide first; `up` is the path to the landing page."""
    pages = [(page, f"gmtree/guide/{page}.html") for page in guide.PAGES]
    groups = [("Guide", pages)]
    groups += [(head, [(name, address(name)) for name in names]) for head, names in subjects()]
    text = f'<h2><a href="{up}index.html">gmtree</a></h2>'
    if (CHECKOUT / "examples").is_dir():
        text += f'<a href="{up}examples.html">Examples</a><a href="{up}changes.html">Changes</a>'
    for head, links in groups:
        items = "".join(f'<li><a href="{up}{url}">{name}</a></li>' for name, url in links)
        text += f"<details{' open' if head == 'Guide' else ''}><summary>{escape(head)}</summary>"
        text += f"<ul>{items}</ul></details>"
    return f'<div class="site">{text}</div>'


def build(out: Path) -> None:
    """Write all pages into the folder `out`."""
    pdoc = check.optional("pdoc", "docs", "A web site")
    render = import_module("pdoc.render")
    convert = check.optional("latex2mathml.converter", "docs", "A web site").convert
    names = [f"gmtree.guide.{page}" for page in guide.PAGES]
    for name in ("gmtree.guide", *names):
        import_module(name).__docformat__ = "markdown"  # type: ignore[attr-defined]
    render.configure(
        docformat="numpy", template_directory=HERE / "templates", show_source=False,
        footer_text="",
    )  # fmt: skip
    render.env.globals.update(sidebar=sidebar, is_guide=lambda name: ".guide" in name)
    _show_inherited()
    specs = ["gmtree", "!gmtree\\..+", "gmtree.guide", "!gmtree.guide\\..+", *names]
    for module in MODULES:
        specs += [f"gmtree.{module}", f"!gmtree.{module}\\..+"]
    with warnings.catch_warnings():
        # pdoc resolves annotations of named tuples in the wrong namespace.
        warnings.filterwarnings("ignore", "Error parsing type annotation")
        pdoc.pdoc(*specs, output_directory=out)
    for path in out.rglob("*.html"):
        path.write_text(_without_dead_links(path.read_text()))
    _link_map(out / "gmtree.html")
    theory = out / "gmtree" / "guide" / "theory.html"
    theory.write_text(_formulas(theory.read_text(), convert))
    (out / "index.html").write_text('<meta http-equiv="refresh" content="0; url=gmtree.html"/>')
    if (CHECKOUT / "README.md").exists():
        _pages(out, render)


def _show_inherited() -> None:
    """Copy the members of private bases to public classes, since these bases have no pages."""
    for module in (gmtree, *(import_module(f"gmtree.{name}") for name in MODULES)):
        for name in getattr(module, "__all__", ()):
            kind = getattr(module, name)
            if isinstance(kind, type):
                bases = [base for base in kind.__mro__[1:] if base.__module__.startswith("gmtree")]
                inherited = {k: x for base in reversed(bases) for k, x in vars(base).items()}
                for attribute in inherited.keys() - vars(kind).keys():
                    if not attribute.startswith("_"):
                        setattr(kind, attribute, inherited[attribute])


def _without_dead_links(page: str) -> str:
    """Return the page without links to places that it does not have."""
    anchors = set(re.findall(r'id="([^"]+)"', page))

    def kept(match: re.Match[str]) -> str:
        return match[0] if match[1] in anchors else match[2]

    return re.sub(r'<a [^>]*href="#([^"]+)"[^>]*>(.*?)</a>', kept, page)


def _link_map(path: Path) -> None:
    """Link the names in the map of the package to their pages, in the file at `path`."""
    page = path.read_text()
    for _, names in subjects():
        for name in names:
            link = f'<a href="{address(name)}">{name}</a>'
            page = re.sub(rf"^((?:<[^>]+>)*){name}(?=  )", rf"\1{link}", page, flags=re.MULTILINE)
    path.write_text(page)


def _formulas(page: str, convert: object) -> str:
    """The page with TeX between dollar signs replaced by MathML."""

    def formula(match: re.Match[str]) -> str:
        tex = unescape(re.sub(r"<[^>]+>", "", match[1] or match[2])).strip()
        return convert(tex, display="block" if match[1] else "inline")  # type: ignore[operator]

    body, end, scripts = page.partition("</main>")
    head, start, body = body.partition("<main")
    pattern = r"\$\$(.+?)\$\$|\$([^$<]+?)\$"
    return head + start + re.sub(pattern, formula, body, flags=re.DOTALL) + end + scripts


def _pages(out: Path, render: ModuleType) -> None:
    """Write pages of the README, the changelog and CONTRIBUTING, and a gallery of examples."""
    template = render.env.get_template("page.html.jinja2")
    to_html = render.env.filters["to_html"]
    shutil.copytree(CHECKOUT / "examples" / "figures", out / "examples" / "figures",
                    dirs_exist_ok=True)  # fmt: skip
    for source, page in PAGES.items():
        body = str(to_html((CHECKOUT / source).read_text()))
        body = re.sub(r'href="examples(/[\w./]*)?"', 'href="examples.html"', body)
        body = re.sub(r'href="asv_benchmarks/README.md"', 'href="contributing.html"', body)
        for other, name in PAGES.items():
            body = body.replace(f'href="{other}"', f'href="{name}.html"')
        (out / f"{page}.html").write_text(template.render(title=f"gmtree - {page}", body=body))
    parts = ["<h1>Examples</h1>"]
    texts = {path: path.read_text() for path in (CHECKOUT / "examples").glob("*.py")}
    for path, text in sorted(texts.items(), key=lambda item: len(item[1])):
        summary = (ast.get_docstring(ast.parse(text)) or "").split("\n")[0]
        parts.append(f"<figure><h2>{path.name}</h2><p>{escape(summary)}</p>")
        picture = f"examples/figures/{path.stem}.png"
        if (CHECKOUT / picture).exists():
            parts.append(f'<img src="{picture}" alt="{path.stem}">')
        code = to_html("```python\n" + text + "\n```")
        parts.append(f"<details><summary>code</summary>{code}</details></figure>")
    page = template.render(title="gmtree - examples", body="\n".join(parts))
    (out / "examples.html").write_text(page)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m gmtree.guide", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default="site", help="default: site")
    folder = parser.parse_args().folder
    build(folder)
    print(f"{folder / 'index.html'}: start here")
