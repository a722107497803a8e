"""Which variables to make coarser, in which order and how, as steps of a plan."""
