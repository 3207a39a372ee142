"""An S3 service of this machine (moto): it refuses requests when told to, and knows what it was asked to change."""

import threading
from collections.abc import Callable, Iterable
from typing import Any

import boto3
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

BUCKET = "agent-runs"
KEYS = {
    "AWS_ACCESS_KEY_ID": "of-the-test",
    "AWS_SECRET_ACCESS_KEY": "secret-of-the-test",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}
Objects = dict[str, bytes]
FULL = (
    b'<?xml version="1.0" encoding="UTF-8"?><Error><Code>XMinioStorageFull</Code>'
    b"<Message>Storage backend has reached its minimum free drive threshold.</Message></Error>"
)
DENIED = b'<?xml version="1.0" encoding="UTF-8"?><Error><Code>AccessDenied</Code><Message>No.</Message></Error>'


class _Quiet(WSGIRequestHandler):
    def log(self, *_: Any, **__: Any) -> None: ...


class S3Server:
    """`changes` are the requests that change something, each its method and key, and `done` those that were carried
    out; `refuses` says which of them are answered as a full bucket answers, `hides` of which keys nobody may know
    anything."""

    def __init__(self) -> None:
        self.changes: list[tuple[str, str]] = []
        self.done: list[tuple[str, str]] = []
        self.refuses: Callable[[str, str], bool] = lambda _method, _key: False
        self.hides: Callable[[str], bool] = lambda _key: False
        self._moto = DomainDispatcherApplication(create_backend_app)
        self._server = make_server("127.0.0.1", 0, self._answer, threaded=True, request_handler=_Quiet)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.client: Any = boto3.client("s3", endpoint_url=self.url, **_boto(KEYS))
        self.client.create_bucket(Bucket=BUCKET)

    def stop(self) -> None:
        self.client.close()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _answer(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        method, key = environ["REQUEST_METHOD"], environ["PATH_INFO"].removeprefix(f"/{BUCKET}/")
        if method in ("PUT", "POST", "DELETE"):
            self.changes.append((method, key))
            if self.refuses(method, key):
                environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
                start("507 Insufficient Storage", [("Content-Type", "application/xml")])
                return [FULL]
        elif self.hides(key):
            start("403 Forbidden", [("Content-Type", "application/xml")])
            return [] if method == "HEAD" else [DENIED]
        answer: Iterable[bytes] = self._moto(environ, start)
        self.done.append((method, key))
        return answer

    def empty(self) -> None:
        self.refuses = lambda _method, _key: False
        self.hides = lambda _key: False
        if keys := [{"Key": key} for key in self.keys()]:
            self.client.delete_objects(Bucket=BUCKET, Delete={"Objects": keys, "Quiet": True})
        self.changes.clear()

    def put(self, objects: Objects) -> None:
        for key, body in objects.items():
            self.client.put_object(Bucket=BUCKET, Key=key, Body=body)
        self.changes.clear()

    def objects(self, prefix: str = "") -> Objects:
        """Every object below `prefix`, by its key relative to it."""
        return {
            key.removeprefix(prefix): self.client.get_object(Bucket=BUCKET, Key=key)["Body"].read()
            for key in self.keys(prefix)
        }

    def keys(self, prefix: str = "") -> list[str]:
        """Their keys alone."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
        return [item["Key"] for page in pages for item in page.get("Contents", ())]


def _boto(keys: dict[str, str]) -> dict[str, str]:
    return {
        "aws_access_key_id": keys["AWS_ACCESS_KEY_ID"],
        "aws_secret_access_key": keys["AWS_SECRET_ACCESS_KEY"],
        "region_name": keys["AWS_DEFAULT_REGION"],
    }
