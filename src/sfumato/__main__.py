"""So that `python -m sfumato` is the command line too."""

from __future__ import annotations

from sfumato.cli import main

if __name__ == "__main__":
    main()
