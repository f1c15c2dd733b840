"""How laws are evaluated: the private engine of `attnlaw.laws`, which alone imports it.

A law made by free convolution is an **expression**: point masses followed by free additions and
multiplications of Marchenko–Pastur and semicircle laws, or pairs of such laws. Each set of point
masses has one complex parameter u; z and G(z) are rational functions of the parameters, and the
density at x is −Im G/π at the parameters with z = x. In reading order:

============== =================================================================================
expression     what an expression is, its normal form, and how it is written
uniformisation z, G and y = zG − 1 as functions of the parameters; the cdf without quadrature
continuation   from a point z of the upper half plane down to its parameters, with proof
gaps           intervals of a real parameter, cut and shrunk: the gaps of a support
support        the gaps of an expression, stage by stage
moments        atoms and moments, exactly; quantiles
free           `FreeLaw`: all of it as a law, with a table of parameters for many points; `@`, and
               from an expression to the kind of law that knows a closed form
============== =================================================================================

Laws of variance profiles are solved from their own equations. For those of causal profiles
`bin_chain` conditions a random walk on observations and solves the linear equations of a Newton
step, `token_chain` conditions it where a bin has many tokens for a dimension, and `flux` finds the
singular values at which to solve. How one of several solutions is chosen: docs/theory/laws.md,
"Which solution".
"""
