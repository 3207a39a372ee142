"""Classification by method and path, recognition by shape, and what of a path is stored."""

import pytest

from roller_capture.recording.credentials import Credentials
from roller_capture.recording.endpoints import classify, looks_like_model_request, model_endpoint, recorded_path
from roller_capture.vocabulary import OtherRequestKind, Protocol

ANTHROPIC, CHAT, RESPONSES = (
    Protocol.ANTHROPIC_MESSAGES,
    Protocol.OPENAI_CHAT_COMPLETIONS,
    Protocol.OPENAI_RESPONSES,
)


@pytest.mark.parametrize(
    ("path", "protocol"),
    [
        ("/v1/messages", ANTHROPIC),
        ("/v1/messages?beta=true", ANTHROPIC),
        ("/messages/", ANTHROPIC),
        ("//anthropic//v1/messages", ANTHROPIC),
        ("/v1/%6Dessages", ANTHROPIC),
        ("/api/v1/chat/completions", CHAT),
        ("/openai/deployments/gpt-x/chat/completions?api-version=2024-06-01", CHAT),
        ("/backend-api/codex/responses", RESPONSES),
        ("/v1/responses/#x", RESPONSES),
    ],
)
def test_model_endpoints(path: str, protocol: Protocol) -> None:
    """Any prefix, query, escape and trailing slash leads to the protocol of the endpoint."""
    assert classify("POST", path) is protocol
    assert classify("post", path) is protocol
    assert model_endpoint(path) is protocol


@pytest.mark.parametrize(
    ("method", "path", "kind"),
    [
        ("HEAD", "/v1/messages", OtherRequestKind.PROBE),
        ("OPTIONS", "/v1/chat/completions", OtherRequestKind.PROBE),
        ("GET", "/v1/messages", OtherRequestKind.OTHER),
        ("GET", "/v1/responses/resp_1", OtherRequestKind.OTHER),
        ("GET", "/v1/models?client_version=1", OtherRequestKind.MODEL_LIST),
        ("GET", "/api/v1/models/vendor/model", OtherRequestKind.MODEL_LIST),
        ("PUT", "/v1/messages", OtherRequestKind.OTHER),
        ("DELETE", "/v1/responses", OtherRequestKind.OTHER),
        ("POST", "/v1/messages/count_tokens?beta=true", OtherRequestKind.COUNT_TOKENS),
        ("POST", "/v1/responses/input_tokens", OtherRequestKind.COUNT_TOKENS),
        ("POST", "/v1beta/models/g:countTokens", OtherRequestKind.COUNT_TOKENS),
        ("POST", "/v1/messages/batches", OtherRequestKind.OTHER),
        ("POST", "/v1/embeddings", OtherRequestKind.EMBEDDINGS),
        ("POST", "/v1beta/models/e:batchEmbedContents", OtherRequestKind.EMBEDDINGS),
        ("POST", "/v1/moderations", OtherRequestKind.OTHER),
        ("POST", "/v1/files", OtherRequestKind.OTHER),
        ("POST", "/v1/audio/speech", OtherRequestKind.OTHER),
        ("POST", "/api/v9/channels/12/messages", None),
        ("POST", "/v1/threads/thread_1/messages", None),
        ("POST", "/v1/responses/compact", None),
        ("POST", "/v1/completions", None),
        ("POST", "/v1/mymessages", None),
        ("POST", "/", None),
    ],
)
def test_other_endpoints(method: str, path: str, kind: OtherRequestKind | None) -> None:
    """What is no model endpoint has a kind, or is left for its body to tell."""
    assert classify(method, path) is kind


@pytest.mark.parametrize(
    ("path", "body", "looks"),
    [
        ("/x", b'{"model": "m", "messages": []}', True),
        ("/x", b'\xef\xbb\xbf \n{"input": "x", "model": null}', True),
        ("/x", b'{"model": "m", "contents": []}', True),
        ("/v1beta/models/g:streamGenerateContent?alt=sse", b'{"contents": []}', True),
        ("/model/anthropic.claude/invoke-with-response-stream", b'{"messages": []}', True),
        ("/projects/p/models/c:rawPredict", b'{"messages": []}', True),
        ("/x", b'{"model": "m"}', False),
        ("/x", b'{"messages": []}', False),
        ("/x", b'["model", "messages"]', False),
        ("/x", b'{"params": {"model": "m", "messages": []}}', False),
        ("/x", b'{"model": "m", "messages": [}', False),
        ("/x", b"model=m&messages=x", False),
        ("/x", b"", False),
        ("/x", b'{"model": "m", "messages": ' + b"[" * 2000 + b"]" * 2000 + b"}", True),
        ("/x", b'{"a": ' + b"[" * 2000 + b"]" * 2000 + b"}", False),
        ("/x", b'{"model": "m", "messages": "\xff"}', False),
    ],
)
def test_shape_of_a_model_request(path: str, body: bytes, *, looks: bool) -> None:
    """A JSON object that names a model, itself or by its path, and holds a conversation."""
    assert looks_like_model_request(path, body) is looks


SECRET = Credentials([(b"Authorization", b"Bearer sk-12345678")])


@pytest.mark.parametrize(
    ("path", "stored"),
    [
        ("/v1/messages", "/v1/messages"),
        ("/v1/messages?beta=true&api-version=2024-06-01", "/v1/messages?beta=true&api-version=2024-06-01"),
        ("/v1/messages?key=abc&sid=1&beta=a%20b", "/v1/messages?key=REDACTED&sid=REDACTED&beta=REDACTED"),
        ("/v1/messages?abcdef", "/v1/messages?REDACTED"),
        ("/v1/messages?", "/v1/messages?"),
        ("/v1/messages?beta=sk-12345678", "/v1/messages?beta=REDACTED"),
        ("/v1/messages?sk-12345678=1", "/v1/messages?REDACTED=REDACTED"),
        ("/gw/sk-12345678/v1/messages", "/gw/REDACTED/v1/messages"),
        ("/gw/sk-ant-0123456789abcdefXYZ/v1/messages", "/gw/REDACTED/v1/messages"),
        ("/gw/AIzaSyA0123456789abcdef/v1/messages", "/gw/REDACTED/v1/messages"),
        ("/v1/messages?api-version=sk-ant-0123456789abcdefXYZ", "/v1/messages?api-version=REDACTED"),
        ("/openai/deployments/key-model/chat/completions", "/openai/deployments/key-model/chat/completions"),
        ("/gw/sk%2D12345678/v1/messages", "/gw/REDACTED/v1/messages"),
        ("/proxy/https://user:pass@host/v1/messages", "/proxy/https://REDACTED@host/v1/messages"),
        ("/v1/organisations/0123456789abcdef0123/messages", "/v1/organisations/0123456789abcdef0123/messages"),
    ],
)
def test_recorded_path(path: str, stored: str) -> None:
    """Unknown query values, credentials and user information never; all else as it is."""
    assert recorded_path(path, SECRET, opaque=False) == stored


@pytest.mark.parametrize(
    ("path", "stored"),
    [
        ("/bot123456:AAH-x/sendMessage", "/REDACTED/sendMessage"),
        ("/services/T00000000/B00000000/XXXXXXXX0XXXXXXXXXXXXXXX", "/services/T00000000/B00000000/REDACTED"),
        ("/oauth/token", "/oauth/token"),
        ("/api/organizations", "/api/organizations"),
    ],
)
def test_recorded_path_of_unrelated_traffic(path: str, stored: str) -> None:
    """Where a segment can itself be the secret, one that looks like it is redacted."""
    assert recorded_path(path, Credentials(), opaque=True) == stored
