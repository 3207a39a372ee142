"""The main trajectory: what the root was asked and what it did, from its own calls alone."""
