"""The shared acceptance: the real harness, a scripted provider, and the provider's own record as the truth.

Knows wire and published format, and no adapter: what it checks is what a user gets.
"""
