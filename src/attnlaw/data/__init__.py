"""Users' arrays and files: sequences, covariances, and readers of files."""
