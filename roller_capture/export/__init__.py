"""Published attempts in the formats of training and exchange (docs/export.md). Only attempts that validate."""
