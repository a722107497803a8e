"""Marginal likelihood of generalised linear models of noised predictors."""
