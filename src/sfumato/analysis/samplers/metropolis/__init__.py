"""Metropolis within Gibbs, for any model of noised data."""
