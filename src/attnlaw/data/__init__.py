"""Users' arrays and files, brought into the forms that estimators and diagnostics take.

=====================  ==========================================================================
``user_arrays``        arrays, sequences, masks and lengths: one rule for every entry point
``sequences``          embeddings (N, L, d), or tokens (N, L) with their table: what both can do
``covariance``         covariance of pooled sequences, block by block or on a Dask cluster
``corpora``            corpora in files or arrays, as chunks that any process can read alone
``corpus_pass``        one pass over a corpus: what is counted and summed of each chunk
``corpus_statistics``  what it finds, saved and read; how records of chunks are merged and kept
``pooled_tokens``      sums of rows of a table, compiled; paths of token weights
``readers``            arrays, tables, vocabularies and sequences from files, without unpickling
``examples``           real tables and labelled texts from installed packages, for tests and pages
=====================  ==========================================================================
"""
