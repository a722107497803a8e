"""Models for noised data: what noise costs an analyst, and how it is taken out again."""
