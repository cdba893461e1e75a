"""What the outputs of a model reveal about the record that was submitted to it."""
