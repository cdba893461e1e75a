"""What every item of a file is, by its values; what nobody can tell is unrecognised."""
