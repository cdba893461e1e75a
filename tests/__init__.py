"""A package of its own: packages that are installed bring a `tests` that would be found in its place."""
