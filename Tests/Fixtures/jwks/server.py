"""Answers with a file, over HTTP and over TLS. Its arguments are the file, a certificate and its key. The first line of
the output has the ports in JSON, each further one the path of a request."""

import http.server
import json
import ssl
import sys
import threading


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        print(self.path, flush=True)
        if self.path == "/moved":
            self.send_response(302)
            self.send_header("Location", "/keys")
            self.end_headers()
        elif self.path == "/silent":
            over.wait()
        elif self.path == "/keys?of=demo":
            with open(sys.argv[1], "rb") as file:
                self.answer(200, file.read())
        elif self.path == "/large":
            self.answer(200, b"[" * 1_000_000)
        else:
            self.answer(404, b"{}")

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


over = threading.Event()
context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
context.load_cert_chain(sys.argv[2], sys.argv[3])
ports = {}
for kind in ["http", "https"]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if kind == "https":
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    ports[kind] = server.server_address[1]
    threading.Thread(target=server.serve_forever, daemon=True).start()
print(json.dumps(ports), flush=True)
# Until the test that has started it is gone.
sys.stdin.read()
over.set()
