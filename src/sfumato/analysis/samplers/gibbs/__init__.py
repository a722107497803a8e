"""Collapsed Gibbs sampler for linear models."""
