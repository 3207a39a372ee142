"""Runs: a run directory's configuration and books, the file of samples, and what Resume decides (design section 9).

    RUN_DIR/run.json
    RUN_DIR/samples/SAMPLE_ID/sample.json
    RUN_DIR/samples/SAMPLE_ID/capture/attempt-0001/      a captured attempt
    RUN_DIR/samples/SAMPLE_ID/uncaptured/attempt-0001/   in a run without --capture-calls

Processes are the business of `roller_capture.collect`, single attempts that of `roller_capture.integrity`.
"""
