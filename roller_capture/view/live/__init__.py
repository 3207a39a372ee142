"""`roller-capture view --live`: follows captures that are still running, in a terminal or as plain lines.

`events` reads what a recorder appends, `followed` keeps an attempt or a run up to date, `screen` shows it, `command` is
the loop. Nothing is written and no lock is taken: a recorder or finalizer must never find one held by somebody who
only looks.
"""
