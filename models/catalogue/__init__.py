"""The models that are shipped, one family a file."""
