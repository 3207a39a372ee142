"""`roller-capture view --html`: attempts as one self-contained page that needs no network.

`pieces` keeps every text once, compressed; `contexts` cuts requests into pieces and says what is new since the agent's
previous call; `native_records` finds the native records behind the evidence; `attempt_index` is what a page knows of
an attempt before anything is opened; `time_scale` lays out when things ran, and `activity` draws that small for the
table of a run; `page` writes the file; `prices` are the user's; `assets` is the page itself.
All data goes into the page as base64, so no byte of it can be read as markup or script.
"""
