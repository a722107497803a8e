"""Arrays in, arrays out. The only compiled code; no kernel ever sees a frame."""
