"""Clusters of similar records, and the one cell that all records of a cluster get."""
