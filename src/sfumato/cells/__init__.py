"""What a released cell can be: value, range, set, mask, wildcard, noisy value; and codes."""
