"""Faults on purpose: `python -m faults` kills, fills, cuts and garbles, and looks at what is left (docs/faults.md)."""
