"""The search for parameters that meet a target at least loss."""
