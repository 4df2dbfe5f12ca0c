"""Labels of nodes: columns of any DataFrame library as codes, and trees made from such columns."""
