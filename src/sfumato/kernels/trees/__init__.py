"""Trees of boxes: nearest neighbours, ranks, and which boxes contain a point."""
