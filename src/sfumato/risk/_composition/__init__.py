"""What several releases of the same records say together."""
