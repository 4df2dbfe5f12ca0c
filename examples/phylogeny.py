"""A phylogeny: from Newick to patristic distances and sums over clades.

The tree has groups of primates, with rounded times of divergence in millions of years and the
number of species of each tip. The distance of two tips is the length of the path between them. Sums
over all clades take one upward sweep. Run it with

    python examples/phylogeny.py --picture primates.png
    python examples/phylogeny.py --newick my_tree.nwk
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import gmtree as gm

PRIMATES = """
(((((((human:6.4,chimpanzee:6.4)Hominini:2.2,gorilla:8.6)Homininae:6.6,orangutan:15.2)Hominidae:4.3,
   gibbon:19.5)apes:9.3,(macaque:12.4,baboon:12.4)'Old World monkeys':16.4)Catarrhini:14.4,
  (marmoset:18.4,capuchin:18.4)'New World monkeys':24.8)Simiiformes:30.6,
 (lemur:58.6,loris:58.6)Strepsirrhini:15.2)Primates;"""
SPECIES = {
    "human": 1, "chimpanzee": 2, "gorilla": 2, "orangutan": 3, "gibbon": 20, "macaque": 24,
    "baboon": 6, "marmoset": 22, "capuchin": 22, "lemur": 107, "loris": 16,
}  # fmt: skip


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--newick", type=Path, help="another tree with branch lengths")
    parser.add_argument("--picture", type=Path, help="draw the tree into this file")
    args = parser.parse_args(argv)

    own = args.newick is None
    tree = gm.Tree.from_newick(PRIMATES if own else args.newick)
    if tree.edge_length is None:
        parser.error(f"{args.newick} has no branch lengths")
    tips = tree.leaves
    names = [str(tree.labels[i]) for i in tips]
    print(tree)

    # Distances of all pairs in one call, by broadcasting.
    distance = tree.distance(tips[:, None], tips[None, :])
    shown = slice(0, 8)
    print("\nPatristic distances (sum of branch lengths)")
    print(" " * 12 + "".join(f"{name[:10]:>12}" for name in names[shown]))
    for name, row in zip(names[shown], distance[shown], strict=True):
        print(f"{name[:12]:<12}" + "".join(f"{x:12.1f}" for x in row[shown]))

    # Sums over clades: species, and the total length of all branches below each node.
    count = tree.aggregate([SPECIES.get(name, 1) if own else 1 for name in names])
    lengths = tree.edge_length.copy()
    lengths[tree.root] = 0
    total = gm.GenerationMatrix(tree).T.solve(lengths) - lengths
    print("\nClade                  tips  species  branch length below")
    sizes = gm.GenerationMatrix(tree).T.solve(np.isin(np.arange(tree.n), tips).astype(int))
    inner = tree.internal
    for i in inner[np.argsort(-count[inner], kind="stable")][:12]:
        name = tree.labels[i] or f"({i})"
        print(f"{name[:22]:<22} {sizes[i]:>4}  {count[i]:>7}  {total[i]:>19.1f}")

    again = gm.Tree.from_newick(tree.to_newick())
    assert again == tree
    assert np.array_equal(again.edge_length, tree.edge_length, equal_nan=True)
    if args.picture is not None:
        ax = gm.plot.node_link(tree, count, unit="million years" if own else "")
        ax.set_title("Primates; points by number of species" if own else str(args.newick))
        ax.figure.savefig(args.picture, dpi=150)
        print(f"\n{args.picture}: the tree")


if __name__ == "__main__":
    main()
