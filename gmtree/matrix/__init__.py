"""The matrices of a tree as operators: products and solves are sweeps over the tree's arrays."""

from gmtree.matrix.constraints import ConstraintMatrix, MappingMatrix
from gmtree.matrix.generation import GenerationMatrix

__all__ = ["ConstraintMatrix", "GenerationMatrix", "MappingMatrix"]
