"""What somebody may begin with: keys between tables, roles, a plan that was tried on the data."""
