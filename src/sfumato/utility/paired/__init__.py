"""What a release no longer tells: cells as numbers or levels, and how far they are from before."""
