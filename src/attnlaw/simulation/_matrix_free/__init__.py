"""The fast engine: exact in law, and neither table nor covariance is ever formed.

Pooled sequences are X = M (Z + ‖μ‖ c uᵀ): M the sparse N×V matrix of pooling weights, Z the
Gaussian table, c = ±1 the classes of the tokens, u the signal's direction. Hence

    S(μ) = ZᵀKZ + ‖μ‖ (u bᵀ + b uᵀ) + ‖μ‖² a u uᵀ ,    K = MᵀM/N,  b = Zᵀk,  k = Kc,  a = cᵀKc

and a trial takes five steps, each in a module of its own:

    1. gram           draw the tokens, that is M
    2. noise, gram    multiply vectors by K: MᵀM/N is applied, never formed
    3. lazy_gaussian  draw of Z only its products with the vectors that are queried
    4. krylov         block Lanczos: the Krylov space of S(0) that holds the leading eigenvectors
                      for every signal norm, grown until they have converged
    5. secular        the leading eigenpairs at every norm, from one small matrix

`trial` puts them together into one measurement; begin there. `plan` decides before any work how a
trial is computed and what memory it takes. `compiled_runs` (real tokens, and the papers'
idealised model) do steps 2 to 4 in the loops of `compiled`, where numba is installed.

Derived in docs/theory/simulation.md, "One draw for all signal norms"; `simulation.pooled` is the
direct computation that the engine is tested against. Nothing outside `attnlaw.simulation` imports
these modules.
"""
