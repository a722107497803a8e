"""Models that measures fit: a formula or a design, logistic and other regressions, a tree."""
