"""Attempts that lie elsewhere: at any URL that fsspec knows, such as a bucket.

One attempt at a time is brought into a private folder of this machine, where the same code works on it as on any other;
what that publishes is put back. So the outcome is the same byte for byte, wherever an attempt lies.
"""

from roller_capture.remote.location import Location, Place, local_path, place

__all__ = ["Location", "Place", "local_path", "place"]
