"""Matrices of a tree as linear operators, whose products and solves are sweeps over the tree."""

from gmtree.matrix.constraints import ConstraintMatrix, MappingMatrix
from gmtree.matrix.generation import GenerationMatrix

__all__ = ["ConstraintMatrix", "GenerationMatrix", "MappingMatrix"]
