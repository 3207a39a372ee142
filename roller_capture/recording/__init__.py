"""The writing half: what becomes of an HTTP exchange on disk while it happens (docs/working-files.md).

Nothing in here knows mitmproxy; `roller_capture.addon` turns its hooks into calls of this package.
"""
