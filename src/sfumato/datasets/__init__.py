"""Data to try things on, none of them about anybody."""

from sfumato.datasets.cohort import cohort, cohort_schema
from sfumato.datasets.hospital import hospital, hospital_schemas
from sfumato.datasets.ranges import read_ranges, write_ranges
from sfumato.datasets.simulation import simulated, simulator

__all__ = [
    "cohort",
    "cohort_schema",
    "hospital",
    "hospital_schemas",
    "read_ranges",
    "simulated",
    "simulator",
    "write_ranges",
]
