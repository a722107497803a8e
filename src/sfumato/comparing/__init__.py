"""Two data sets side by side: the original and the released."""
