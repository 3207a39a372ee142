"""Adapters: one function over the native logs of one harness that returns a `NativeCapture`, and what they share.

An adapter decides no status, looks at no call and writes nothing. The `native_*` modules read hostile files safely;
they know no harness.
"""
