"""A server with a folder of its own, its commands, and sessions of clients over a WebSocket."""
import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import urllib.parse
import zlib

APP_PATH = "/api/client/v2.0/app/"


class Server:
    def __init__(self, command, rules=None):
        self.command = command
        self.folder = tempfile.mkdtemp(prefix="value-proofs-", dir=memory())
        self.data = f"{self.folder}/data"
        more = []
        if rules is not None:
            more = ["--rules", self.file("rules.yaml", rules.encode())]
        self.log = open(f"{self.folder}/log", "wb")
        self.process = subprocess.Popen(
            [command, "serve", "--dev", "--data", self.data, "--listen", "127.0.0.1:0", *more],
            stdout=subprocess.PIPE, stderr=self.log, text=True)
        found = re.search(r"127\.0\.0\.1:(\d+)", self.process.stdout.readline())
        if not found:
            raise SystemExit(f"the server does not start: {open(self.log.name).read()}")
        self.port = int(found[1])
        self.local = threading.local()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(30)
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def file(self, name, content):
        path = f"{self.folder}/{name}"
        with open(path, "wb") as file:
            file.write(content)
        return path

    def run(self, *arguments, data=None):
        """A command: its exit status, standard output and standard error, as bytes."""
        done = subprocess.run(
            [self.command, *arguments, "--data", data or self.data], capture_output=True, stdin=subprocess.DEVNULL)
        return done.returncode, done.stdout, done.stderr

    def token(self, app):
        """The access token of a new anonymous user."""
        client = http.client.HTTPConnection("127.0.0.1", self.port)
        client.request("POST", f"{APP_PATH}{app}/auth/providers/anon-user/login",
                       '{"provider":"anon-user"}', {"Content-Type": "application/json"})
        return json.loads(client.getresponse().read())["access_token"]

    def get(self, endpoint, **query):
        """What the admin interface answers, with its status."""
        local = self.local
        if not hasattr(local, "admin"):
            address = open(f"{self.data}/admin-address").read().split()[0]
            local.admin = http.client.HTTPConnection(urllib.parse.urlparse(address).netloc)
            local.headers = {"Authorization": "Bearer " + open(f"{self.data}/admin-token").read().strip()}
            local.asked = 0
        # The server closes a connection on which nothing comes for a while.
        if time.monotonic() - local.asked > 5:
            local.admin.close()
        local.asked = time.monotonic()
        local.admin.request("GET", f"{endpoint}?{urllib.parse.urlencode(query)}", headers=local.headers)
        answer = local.admin.getresponse()
        return answer.status, json.loads(answer.read())

    def paths(self):
        """The paths of all synced files, as bytes."""
        paths, after = [], {}
        while after is not None:
            _, page = self.get("/v1/files", limit=1000, **after)
            paths += [bytes_of(element["path"]) for element in page["files"]]
            after = {"after": page["next"]} if "next" in page else None
        return paths


def memory():
    """A folder in memory, if there is a large one: what a proof writes is thrown away, and waits for no disk."""
    folder = "/dev/shm"
    is_large = os.path.isdir(folder) and shutil.disk_usage(folder).free > 4 << 30
    return folder if is_large and "TMPDIR" not in os.environ else None


def word(path):
    """A path as commands and the admin interface take it."""
    return "".join(chr(byte) if 0x20 < byte < 0x7F and byte != 0x25 else "%%%02x" % byte for byte in path)


def bytes_of(path):
    return urllib.parse.unquote_to_bytes(path)


class Connections(threading.local):
    """A connection for each thread, made when the thread first asks for it."""

    def __init__(self, server, app):
        self.connection = Connection(server, app)


class Connection:
    """A WebSocket of a user who opens one session after the other."""

    def __init__(self, server, app):
        self.socket = socket.create_connection(("127.0.0.1", server.port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.settimeout(60)
        self.received = b""
        self.session = 0
        self.socket.sendall(
            f"GET {APP_PATH}{app}/realm-sync?baas_at={server.token(app)} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
            "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
            "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: com.mongodb.realm-sync#14\r\n\r\n".encode())
        while b"\r\n\r\n" not in self.received:
            self.received += self.socket.recv(65536)
        head, self.received = self.received.split(b"\r\n\r\n", 1)
        if b" 101 " not in head.split(b"\r\n")[0]:
            raise SystemExit(f"no WebSocket: {head}")

    def bind(self, partition, ident=None):
        """Opens a partition as a new client file, or as the one given.

        Returns the client file and what is downloaded first; or None and the code of the error."""
        self.session += 1
        session = self.session
        self.send(b"bind %d %d 0 %d 0\n" % (session, len(partition), ident is None) + partition)
        if ident is None:
            words = self.message()[0]
            if words[0] != b"ident":
                return self.refused(words)
            ident = int(words[2]), int(words[3])
        self.send(b"ident %d %d %d 0 0 0 0\n" % (session, *ident))
        words, body = self.message()
        if words[0] != b"download":
            return self.refused(words)
        if words[-3] == b"1":
            body = zlib.decompress(body)
        self.send(b"unbind %d\n" % session)
        while self.message()[0][0] != b"unbound":
            pass
        return ident, body

    def refused(self, words):
        self.send(b"unbind %d\n" % self.session)
        return None, b" ".join(words[:2]).decode()

    def message(self):
        """The words of the next message's first line, and what follows."""
        head = self.take(2)
        length = head[1] & 127
        if length > 125:
            length = int.from_bytes(self.take(2 if length == 126 else 8), "big")
        payload = self.take(length)
        if head[0] & 15 == 8:
            raise EOFError(f"closed: {payload}")
        line, _, body = payload.partition(b"\n")
        return self.message() if line.startswith(b"log_message") else (line.split(b" "), body)

    def send(self, message):
        length = len(message)
        head = bytes([0x82, 0x80 | length]) if length < 126 else b"\x82\xfe" + length.to_bytes(2, "big")
        self.socket.sendall(head + bytes(4) + message)

    def take(self, count):
        while len(self.received) < count:
            piece = self.socket.recv(65536)
            if not piece:
                raise EOFError("closed")
            self.received += piece
        taken, self.received = self.received[:count], self.received[count:]
        return taken
