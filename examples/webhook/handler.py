import json, os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        task = json.loads(self.rfile.read(int(self.headers["content-length"])))["data"]
        print(f"{task['key']} is due, attempt {task['attempt']}", flush=True)
        self.send_response(204)  # any 2xx: done
        self.end_headers()

ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", 8801))), Handler).serve_forever()
