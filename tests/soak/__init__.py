"""Long runs that look for what the tests have not thought of: see `make soak`."""
