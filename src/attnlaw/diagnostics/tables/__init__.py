"""Embedding tables: which directions are signal, and whether the rest follows the law.

``inspection`` writes the report (`inspect_table`): outliers, the tokens that load on them, notes
and a verdict. ``noise`` estimates the population spectrum and the row lengths behind the bulk
(`population_spectrum`), and predicts the spectrum of some rows from all the others, the held-out
check (`check_subsets`).
"""
