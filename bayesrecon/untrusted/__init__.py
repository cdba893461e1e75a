"""Reading of untrusted files: checks before a file is opened, and the guarded process that opens it."""
