"""Noise of known distribution: how its size is fitted, and how it is drawn."""
