"""How free convolutions are evaluated: expressions, their uniformisation, and their support."""
