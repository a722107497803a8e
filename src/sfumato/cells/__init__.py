"""What a released cell can be: value, range, set, mask or wildcard; and codes."""
