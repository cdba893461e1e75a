"""What two trained models give away of the record between them."""
