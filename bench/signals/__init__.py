"""Benchmarks of signals."""
