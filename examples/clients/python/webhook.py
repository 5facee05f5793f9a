"""Takes webhooks, checks that they are the grader's, and prints what they tell.  Usage: GRADER_HOOK_SECRET=whsec_... python webhook.py PORT

Standard library only. It speaks plain HTTP, for behind a proxy that does TLS: the grader sends to https:// only.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import sys
import time
from collections import OrderedDict
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer

TOLERANCE_S = 300  # a delivery that was signed longer ago is a replay
BODY_LIMIT_BYTES = 16 * 1024 * 1024
SEEN_LIMIT = 10_000


def genuine(secret: str, headers: Mapping[str, str], body: bytes, now_s: float) -> bool:
    """Whether the sender has the secret and sent this now."""
    timestamp, signature = headers.get("X-Grader-Timestamp", ""), headers.get("X-Grader-Signature", "")
    if not (timestamp.isascii() and timestamp.isdecimal()) or abs(now_s - int(timestamp[:12])) > TOLERANCE_S:
        return False
    wanted = hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(f"v1={wanted}".encode(), signature.encode())  # takes as long whatever differs


class Receiver(BaseHTTPRequestHandler):
    """One request."""

    secret = ""
    seen: OrderedDict[str, None] = OrderedDict()  # noqa: RUF012  # deliveries: each comes at least once, and may come again

    def do_POST(self) -> None:
        """Check, print, answer: quickly, for the grader waits ten seconds."""
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > BODY_LIMIT_BYTES:
            return self.answer(413)
        body = self.rfile.read(int(length))
        if not genuine(self.secret, self.headers, body, time.time()):
            return self.answer(401)
        delivery = json.loads(body)
        if delivery["delivery_id"] not in self.seen:
            self.seen[delivery["delivery_id"]] = None
            if len(self.seen) > SEEN_LIMIT:
                self.seen.popitem(last=False)
            submission = delivery["submission"]
            print(delivery["event"], submission["name"], submission["state"], submission.get("report", {}).get("verdict", "-"), flush=True)
        return self.answer(204)

    def answer(self, status: int) -> None:
        """Without a body."""
        self.send_response(status)
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing except what arrived."""


if __name__ == "__main__":
    Receiver.secret = os.environ["GRADER_HOOK_SECRET"]
    HTTPServer(("127.0.0.1", int(sys.argv[1])), Receiver).serve_forever()
