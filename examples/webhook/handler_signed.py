"""A webhook receiver that accepts signed calls only (Standard Webhooks, v1).

WEBHOOK_SECRET is the secret of the queue's settings: whsec_ and 24 to 64 bytes in base 64.
"""

import base64, hmac, json, os, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SECRET = base64.b64decode(os.environ["WEBHOOK_SECRET"].removeprefix("whsec_") + "==")

def is_signed(headers, body):
    id, sent_at = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not sent_at.isdecimal() or abs(time.time() - int(sent_at)) > 300:
        return False  # too old: perhaps a replay
    text = f"{id}.{sent_at}.".encode() + body
    wanted = b"v1," + base64.b64encode(hmac.digest(SECRET, text, "sha256"))
    given = headers.get("webhook-signature", "").encode().split()
    return any(hmac.compare_digest(wanted, one) for one in given)

class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        if not is_signed(self.headers, body):
            return self.answer(401)
        task = json.loads(body)["data"]
        print(f"{task['key']} is due, attempt {task['attempt']}", flush=True)
        self.answer(204)

    def answer(self, status):
        self.send_response(status)
        if status != 204:
            self.send_header("content-length", "0")
        self.end_headers()

ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", 8801))), Handler).serve_forever()
