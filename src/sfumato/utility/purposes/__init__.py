"""What data are shared for, item by item: statements, and the estimates that they ask for."""
