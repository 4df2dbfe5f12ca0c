"""Benchmarks for asv; `common` holds the trees and sizes that all of them use."""
