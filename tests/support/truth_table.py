"""The truth table of the shared acceptance, for tests."""

from roller_capture.acceptance.truth_table import Relation, TruthTable

__all__ = ["Relation", "TruthTable"]
