"""Forecasts."""
from gmtree.forecast.methods import BottomUp, MinTrace
from gmtree.forecast.reconcile import reconcile
from gmtree.forecast.structure import Structure
__all__=["BottomUp","MinTrace","Structure", "reconcile"]
