"""The papers behind Sfumato, recomputed: published value, ours, the difference, and why."""
