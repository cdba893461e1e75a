"""How work is run: by which processes and devices, on how many threads, with which rows on disk, compiled once."""
