"""Which pooling suits a user's own sequences."""
