"""What the outputs of a model give away about the record that it was asked about."""
