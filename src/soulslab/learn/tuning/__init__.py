"""Searching for good settings: many short runs, of which each begins where the ones before it did well.

The way from a search space to an answer: ``settings`` (what is asked), ``space`` (checked against those of the run),
``folder`` and ``ledger`` (the study on the disk), ``trial`` (one candidate trained), ``crew`` (several at once),
``running`` (the loop), ``report`` and ``picture`` (what came of it).
"""
