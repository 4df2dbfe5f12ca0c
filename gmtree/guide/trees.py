"""Trees: how to make them from files, columns and objects, and how nodes are numbered.

Constructors
------------

    Tree.from_parents(parent)          parent of each node, -1 for the root
    Tree.from_edges(child, parent)     two columns of labels
    Tree.from_levels(frame, levels=)   one column per level, one row per leaf
    Tree.from_records(...)             columns of levels with many rows per leaf
    Tree.from_newick(text or file)     phylogenies
    Tree.from_linkage(Z)               clusterings of scipy and scikit-learn
    Tree.from_networkx(graph)          digraphs
    Tree.from_objects(root, children)  linked objects: anytree, ete3, scikit-bio, nested dicts
    Tree.from_summing_matrix(S)        forecast hierarchies
    Tree.from_adjacency(A), from_laplacian(L), from_distances(D), from_structure(G)
    gm.shapes                          complete trees, chains, stars, calendars, random trees

>>> import gmtree as gm
>>> tree = gm.Tree.from_newick("((cat:1,lion:2)feline:3,dog:7);")
>>> tree.distance(tree.node("cat"), tree.node("dog"))
11.0
>>> print(tree.outline())
(0)
├── feline
│   ├── cat
│   └── lion
└── dog

``to_newick``, ``to_networkx`` and ``to_frame`` convert a tree to other formats.

Numbering
---------

Nodes keep your numbers, and every array with one entry per node is in this numbering. Arrays with
one entry per leaf are in the order of ``tree.leaves``, by ascending number. Internally, nodes are
in *canonical order*: by descending height, with the children of each parent together. If your own
numbering is canonical, a sweep takes about a tenth of the time that it takes in a random numbering.
So before many sweeps it pays to renumber the tree once:

>>> canonical = tree.canonical()
>>> canonical.parent.tolist(), tree.order.tolist()
([-1, 0, 0, 1, 1], [0, 1, 4, 2, 3])

An array ``v`` for the first tree becomes ``v[tree.order]`` for the second one.

Heights and depths
------------------

Heights and depths count nodes: a leaf has height 1, and the root has depth 1. So ``tree.height`` is
the number of levels, and a tree of one node has height 1.

>>> tree.height, tree.n_levels, tree.depth.tolist()
(3, 3, [1, 2, 3, 3, 2])

A tree never changes, and threads may share it. It takes at most 16 bytes per node:

>>> 16 * 10**7 / 2**20  # megabytes for ten million nodes, at most
152.587890625
"""
