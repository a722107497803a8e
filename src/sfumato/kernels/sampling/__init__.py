"""Random deviates, and the passes over records that the samplers of `analysis` make."""
