"""Networks: their records from their parameters."""
