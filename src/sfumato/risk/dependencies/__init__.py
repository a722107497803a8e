"""What some variables tell of others, and the table of who puts that in."""
