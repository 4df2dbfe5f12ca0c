"""Labels of nodes: columns of any library as codes, levels into trees, labels into nodes."""
