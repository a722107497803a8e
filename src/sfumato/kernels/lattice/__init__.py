"""Every combination of variables an outsider may know: protective peers and matches."""
