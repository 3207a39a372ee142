"""Entry point for `mitmdump -s addons/capture.py`; everything happens in the package.

mitmproxy keeps this folder on `sys.path` only while it imports the script, so nothing may be imported lazily from here.
"""

from roller_capture.addon import CaptureAddon

addons = [CaptureAddon()]
