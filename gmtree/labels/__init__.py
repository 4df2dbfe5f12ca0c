"""Labels of nodes: columns of any library as codes, trees from levels, nodes from labels."""
