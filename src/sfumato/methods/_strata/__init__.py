"""Records by their categories: small strata, joined levels, filled gaps, centres of neighbours."""
