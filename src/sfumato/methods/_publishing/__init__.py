"""Fitted values that leave with a release: made so that no single record shows in them."""
