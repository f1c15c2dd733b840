"""What the spectrum of an embedding table holds."""
