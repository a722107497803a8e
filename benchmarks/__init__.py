"""Each benchmark compares with a named baseline in the same run and prints the ratio."""
