"""Values for masked cells: what fits, and how it is drawn."""
