"""One command a file: a module with `COMMAND` adds a command of its own name."""
