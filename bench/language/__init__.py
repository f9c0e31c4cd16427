"""Benchmarks of language."""
