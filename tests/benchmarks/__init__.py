"""Tests of the benchmarks that ship."""
