"""The inner loops of the engine, compiled by numba; imported only where they are used.

kernels        the `compiled` decorator; random numbers and tokens by xoshiro256++, the ziggurat
               and Lemire's integers; linear algebra on a few long rows
products       products with the sparse weight matrix M, in tiles when the table is larger than
               the processor's caches
lazy_gaussian  a Gaussian table of which only the queried products are drawn
lanczos        steps of block Lanczos
secular        the secular equation at every signal norm
"""
