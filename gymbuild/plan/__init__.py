"""Prepared file to plan; plans compared, split and validated."""
