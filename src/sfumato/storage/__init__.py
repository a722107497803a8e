"""Release folders on disk: written all or nothing, opened, and verified."""
