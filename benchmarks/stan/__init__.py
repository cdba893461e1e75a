"""Programs in Stan."""
