"""Images of a conversation: the format holds paths, so each image becomes a file beside the trajectories.

A file is named by its content: an image that stands in every request of a conversation is there once.
"""

import base64
import binascii
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

from roller_capture.export.main.chain import NoTrajectoryError

_SUFFIXES: Final[Mapping[str, str]] = {
    "image/jpeg": ".jpg",
    "image/png": ".png",
    "image/gif": ".gif",
    "image/webp": ".webp",
}
"""The media types that the format knows."""

Images = dict[str, bytes]
"""File name → the image's own bytes."""


def content_parts(parts: Sequence[Mapping[str, str]], images: Images) -> list[dict[str, Any]]:
    """A message's texts and images as the format has them; the images are added to `images`.

    Raises `NoTrajectoryError` where the format has no such image.
    """
    return [
        {"type": "text", "text": part["text"]} if part["type"] == "text" else _image(part, images) for part in parts
    ]


def _image(part: Mapping[str, str], images: Images) -> dict[str, Any]:
    media_type = part["media_type"]
    if media_type not in _SUFFIXES:
        raise NoTrajectoryError("an image of a type that the format has not")
    try:
        data = base64.b64decode(part["data"], validate=True)
    except (binascii.Error, ValueError):  # a text that is no ASCII
        raise NoTrajectoryError("an image that is no base64") from None
    name = f"image-{hashlib.sha256(data).hexdigest()[:32]}{_SUFFIXES[media_type]}"
    images[name] = data
    return {"type": "image", "source": {"media_type": media_type, "path": name}}
