"""The original beside the released data: what became of each value, record and variable."""
