"""Configs and settings become benchmarks and datasets."""
