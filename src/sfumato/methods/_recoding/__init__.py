"""What becomes of values that are joined, and of what the schema says of them."""
