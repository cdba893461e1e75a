"""The models that are shipped, one family per file."""
