"""`roller-capture import`: the files of other recorders become an attempt's working files (docs/import.md).

`sources` tells what a file is; `flow_file` (which needs mitmproxy) and `har` read it. `feeding` gives each exchange to
the recorder's own writing half, so that what may be stored is decided in one place, and `native_logs` copies the
harness's logs. What a source does not prove is named in the events and never filled in.
"""
