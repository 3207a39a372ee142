"""Mutations of all that is read: `python -m fuzz` (docs/faults.md). A few thousand of them are in `make test`."""
