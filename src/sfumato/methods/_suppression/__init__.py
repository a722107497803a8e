"""Which cells to blank so that every combination of values has enough records."""
