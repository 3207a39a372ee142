"""What a request is for, told from method and path alone (design sections 5 and 8), and how its path is stored."""

import functools
import re
from typing import Final
from urllib.parse import unquote

from roller_capture import json_text
from roller_capture.recording.credentials import Credentials
from roller_capture.vocabulary import OtherRequestKind, Protocol

REDACTED: Final = "REDACTED"

_MODEL_ENDPOINTS: Final = (
    ("/messages", Protocol.ANTHROPIC_MESSAGES),
    ("/chat/completions", Protocol.OPENAI_CHAT_COMPLETIONS),
    ("/responses", Protocol.OPENAI_RESPONSES),
)
# Chat services and OpenAI's own threads post plain messages under the id of a room.
_ROOM_MESSAGES: Final = re.compile(r"/(?:threads|channels|conversations|rooms)/[^/]+/messages$")

_KNOWN_POSTS: Final = (
    (re.compile(r"/(?:messages/count_tokens|responses/input_tokens)$|:countTokens$"), OtherRequestKind.COUNT_TOKENS),
    (
        re.compile(r"/(?:embeddings?|embed|rerank)$|:(?:batch)?[eE]mbed(?:Contents?|Text)$"),
        OtherRequestKind.EMBEDDINGS,
    ),
    (
        re.compile(
            r"/(?:messages/batches|batches|models|moderations|files|uploads|fine_tuning/jobs|vector_stores|assistants"
            r"|audio/[a-z]+|images/[a-z]+|videos|tokenize|api/show|api/pull)$"
        ),
        OtherRequestKind.OTHER,
    ),
)
_MODEL_LIST: Final = re.compile(r"/models(?:/[^/]+){0,3}$|/api/tags$")
# These paths name the model themselves, so their bodies do not: Gemini, Vertex, Bedrock.
_NAMES_A_MODEL: Final = re.compile(
    r":(?:streamG|g)enerateContent$|:(?:streamRawP|rawP)redict$|/model/[^/]+/(?:invoke|converse)[a-z-]*$"
)
_CONVERSATIONS: Final = ("messages", "input", "contents", "prompt")

_SAFE_QUERY: Final = frozenset(
    ("beta", "api-version", "stream", "alt", "version", "client_version", "limit", "order", "include", "model")
)
_KEY_LIKE: Final = re.compile(
    r"(?:(?:sk|pk|rk|ak|key|token|gh[opsu]|glpat|hf|gsk|xox[abpr])[-_]|AIza)[A-Za-z0-9_-]{16,}", re.IGNORECASE
)
"""Keys as the common services spell them; a gateway may take one in its path."""
_SAFE_VALUE: Final = re.compile(r"[A-Za-z0-9._:,/-]{0,64}")
_USERINFO: Final = re.compile(r"//[^/@?#]*@")
_BOT_TOKEN: Final = re.compile(r"bot\d+:.+", re.IGNORECASE)
_LOOKS_SECRET: Final = re.compile(r"(?=[^/]*[0-9])(?=[^/]*[A-Za-z])[^/]{20,}")


@functools.lru_cache(maxsize=256)
def classify(method: str, path: str) -> Protocol | OtherRequestKind | None:
    """The protocol of a model request, the kind of other traffic, or `None` for a POST that only its body can tell.

    `path` is the request target with or without its query. Any prefix and a trailing slash are tolerated.
    """
    verb = method.upper()
    if verb in ("HEAD", "OPTIONS"):
        return OtherRequestKind.PROBE
    plain = _plain(path)
    if verb == "POST":
        protocol = model_endpoint(path)
        if protocol is not None:
            return protocol
        return next((kind for pattern, kind in _KNOWN_POSTS if pattern.search(plain)), None)
    if verb == "GET" and _MODEL_LIST.search(plain):
        return OtherRequestKind.MODEL_LIST
    return OtherRequestKind.OTHER


@functools.lru_cache(maxsize=256)
def model_endpoint(path: str) -> Protocol | None:
    """The protocol whose endpoint `path` is, whatever the method."""
    plain = _plain(path)
    if _ROOM_MESSAGES.search(plain):
        return None
    return next((protocol for ending, protocol in _MODEL_ENDPOINTS if plain.endswith(ending)), None)


def looks_like_model_request(path: str, body: bytes) -> bool:
    """Whether a decoded POST body is a JSON object that asks some model about some conversation."""
    if not body.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{"):
        return False
    try:
        value = json_text.parse(body)
    except json_text.JsonError as error:
        # Nested too deep to parse is no reason to let it pass unseen.
        return error.too_deep and b'"model"' in body and any(b'"%s"' % name.encode() in body for name in _CONVERSATIONS)
    if not isinstance(value, dict) or not any(name in value for name in _CONVERSATIONS):
        return False
    return "model" in value or _NAMES_A_MODEL.search(_plain(path)) is not None


def recorded_path(path: str, credentials: Credentials, *, opaque: bool) -> str:
    """The request target as it may be stored.

    Query values are kept only for names known to be harmless, user information and credentials of this request never.
    `opaque` is for traffic that is nobody's model endpoint, where a segment can itself be the secret (webhooks, bot
    tokens): segments that look like one are redacted too.
    """
    plain, mark, query = path.partition("?")
    plain = _USERINFO.sub(f"//{REDACTED}@", plain)
    segments = [_recorded_segment(segment, credentials, opaque=opaque) for segment in plain.split("/")]
    fields = [_recorded_field(field, credentials) for field in re.split("[&;]", query)] if query else []
    return "/".join(segments) + mark + "&".join(fields)


def _recorded_segment(segment: str, credentials: Credentials, *, opaque: bool) -> str:
    known = credentials.found_in(segment) or _KEY_LIKE.fullmatch(segment)
    if known or (opaque and (_BOT_TOKEN.fullmatch(segment) or _LOOKS_SECRET.fullmatch(segment))):
        return REDACTED
    return segment


def _recorded_field(field: str, credentials: Credentials) -> str:
    name, mark, value = field.partition("=")
    if name.lower() in _SAFE_QUERY:
        plain = _SAFE_VALUE.fullmatch(value) is not None and _KEY_LIKE.fullmatch(value) is None
        safe = plain and not credentials.found_in(value)
        return field if safe else f"{name}={REDACTED}"
    if not mark:
        return REDACTED if name else ""
    if len(name) > 64 or credentials.found_in(name):
        name = REDACTED
    return f"{name}={REDACTED}"


@functools.lru_cache(maxsize=256)
def _plain(path: str) -> str:
    """The path without query, escapes, repeated and trailing slashes, and always with a leading one."""
    plain = unquote(re.split("[?#]", path, maxsplit=1)[0])
    return "/" + re.sub("/{2,}", "/", plain).strip("/")
