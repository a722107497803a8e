"""Clusters of at least k similar records: Mondrian, MDAV, orders, and the rules they keep."""
