"""Benchmarks of exact kernels, and the theorems."""
