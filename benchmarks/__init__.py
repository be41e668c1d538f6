"""Benchmarks of soulslab: speed, and decisions and time until fights are won, compared with other libraries.

``python -m benchmarks arena --quick`` runs one benchmark; ``python -m benchmarks --help`` lists them. Each prints its
tables and can also write them as JSON.
"""
