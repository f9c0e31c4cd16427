"""One harness for all benchmarks: options, runs, tables, reports."""
