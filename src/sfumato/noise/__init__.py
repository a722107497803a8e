"""Noise of known distribution: how it is described, published and read again."""
