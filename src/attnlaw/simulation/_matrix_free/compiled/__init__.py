"""The inner loops of the engine, compiled by numba; imported only where they are used.

kernels        the `compiled` decorator, products with the sparse weight matrix M, and linear
               algebra on a few long rows
tiles          products with M when the table is larger than the processor's caches
draws          random numbers and tokens: xoshiro256++, ziggurat, Lemire's integers
lazy_gaussian  a Gaussian table of which only the queried products are drawn
lanczos        steps of block Lanczos, and the secular equation
"""
