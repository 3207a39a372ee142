"""Writes what the decoder makes of each transcript beside it; review the diff before it is committed.

Run from the project's root: `python tests/model_protocols/regenerate_expected.py`.
"""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from roller_capture.decode_command import decode_file, render
from tests.model_protocols.transcripts import ALL, protocol_of

for transcript in ALL:
    decoded = json.loads(render(decode_file(transcript, protocol_of(transcript))))
    text = json.dumps(decoded, indent=1, ensure_ascii=False) + "\n"
    transcript.with_suffix(".expected.json").write_text(text, encoding="utf-8")
