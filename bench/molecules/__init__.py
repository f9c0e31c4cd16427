"""Benchmarks of molecules."""
