"""A tree file: distances, sums below each node, and a picture."""

import argparse

import numpy as np

import gmtree as gm

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--picture", help="draw the tree into this file")
picture = parser.parse_args().picture

text = "(((cat:11,lion:11)cats:30,(dog:12,wolf:12)dogs:29)carnivores:35,horse:76)mammals;"
tree = gm.Tree.from_newick(text)  # or the name of a file
print(tree.outline())
print("cat to wolf:", tree.distance(tree.node("cat"), tree.node("wolf")), "million years")
seen = tree.aggregate(np.array([9, 2, 14, 3, 6]))  # animals seen, by leaf
for node in (tree.node("cats"), tree.root):
    print(tree.labels[node], seen[node])
if picture:
    gm.plot.node_link(tree, seen, unit="million years").figure.savefig(picture, dpi=100)
