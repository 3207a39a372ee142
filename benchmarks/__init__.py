"""What recording, finalizing, viewing and validating cost, against the unavoidable work in the same run.

`python -m benchmarks` measures and judges by the floors of the project; docs/performance.md says how to read it.
"""
