"""Which level of its hierarchy each variable gets: levels as codes, and the search for the best."""
