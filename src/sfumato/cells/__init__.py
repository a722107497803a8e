"""Cells that stand for several values: ranges, masks, sets, groups of a hierarchy, wild cards."""
