"""The fast engine of simulation: leading eigenvectors without forming a matrix."""
