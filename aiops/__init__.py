"""Incident analyzer for GPU training clusters: evidence in, one verdict out."""

__version__ = "0.1.0"
