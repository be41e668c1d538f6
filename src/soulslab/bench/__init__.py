"""The benchmarks behind `soulslab bench`: each prints a table and can write it as JSON."""
