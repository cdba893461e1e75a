"""Files from strangers: what is refused before anything is opened, and the process that opens the rest."""
