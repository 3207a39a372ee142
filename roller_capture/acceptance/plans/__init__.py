"""What each harness must give in each scenario: one module `NAME.py` (dashes as underscores) with a `PLAN`."""
