"""`roller-capture collect`: runs a harness behind the recording proxy and publishes what was captured.

Nothing is imported here, so that the watchdog, a process of its own, starts at once.
"""
