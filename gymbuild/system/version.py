"""The version of gymbuild."""

__version__ = "0.1.0"
