"""Ways to draw coefficients from their distribution given what was released."""
