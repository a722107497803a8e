"""Data to try things on, none of them about anybody."""

from sfumato.datasets.cohort import cohort
from sfumato.datasets.ranges import read_ranges, write_ranges
from sfumato.datasets.simulated import simulated, simulator
from sfumato.datasets.variables import cohort_schema

__all__ = ["cohort", "cohort_schema", "read_ranges", "simulated", "simulator", "write_ranges"]
