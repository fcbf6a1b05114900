"""Clients of a world: the device of `anabranch ota`, with a proxy that cuts it off or kills it, a Realm client, which
is `anabranch client`, and a client of Simperium's wire."""

import http.client
import json
import os
import plistlib
import socket
import subprocess
import threading

import device as devices

ENVIRONMENT = dict(os.environ, ANABRANCH_PASSWORD="secret-word")


class Proxy:
    """Passes requests on to the server, and cuts the connection at a message of a device: before it, at odd numbers, or
    after it, so that its answer is lost. Repeats messages at random."""

    def __init__(self, port, cut_at=None, kill=None, repeats=None):
        self.port_of_server, self.cut_at, self.kill, self.repeats = port, cut_at, kill, repeats
        self.messages, self.is_cut, self.fault = 0, False, None
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            try:
                with connection:
                    self.serve(connection)
            except OSError:
                pass

    def serve(self, connection):
        if self.is_cut:
            return
        request = b""
        while b"\r\n\r\n" not in request:
            part = connection.recv(65536)
            if not part:
                return
            request += part
        head, body = request.split(b"\r\n\r\n", 1)
        lengths = [line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
        length = int(lengths[0].split(b":")[1]) if lengths else 0
        while len(body) < length:
            part = connection.recv(65536)
            if not part:
                return
            body += part
        request = head + b"\r\n\r\n" + body
        is_message = head.startswith(b"POST /ota ")
        if is_message:
            self.messages += 1
            if self.cut_at == 2 * self.messages - 1:
                return self.cut()
        answer = self.ask(request)
        if is_message:
            if self.repeats is not None and self.repeats.random() < 0.2:
                again = self.ask(request)
                if again.split(b"\r\n\r\n", 1)[1] != answer.split(b"\r\n\r\n", 1)[1]:
                    self.fault = "a repeated message has another answer"
            if self.cut_at == 2 * self.messages:
                return self.cut()
        connection.sendall(answer)

    def ask(self, request):
        with socket.create_connection(("127.0.0.1", self.port_of_server), timeout=60) as server:
            server.sendall(request)
            answer = b""
            while part := server.recv(65536):
                answer += part
        return answer

    def cut(self):
        self.is_cut = True
        if self.kill is not None:
            self.kill()

    def close(self):
        # Ends `accept`, which `close` alone does not.
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


class ProgramDevice(devices.Device):
    """The device of `anabranch ota`, over a SQLite file."""

    def __init__(self, program, folder, files, email, *arguments):
        super().__init__(*arguments)
        self.program, self.email, self.writes = program, email, []
        self.store = os.path.join(folder, f"{self.name}.sqlite")
        self.options = [word for file in files for word in ("--dataclass", file)] + ["--form", self.form]
        self.options += ["--own-ids"] if self.maps else []
        self.options += [] if self.binary else ["--xml"]

    def command(self, *words, **options):
        return [self.program, "ota", words[0], "--store", self.store, *words[1:]]

    def ask(self, *words, stdin=None):
        result = subprocess.run(self.command(*words), input=stdin, capture_output=True)
        assert result.returncode == 0, (words, result.stderr.decode())
        return result.stdout

    # Edits: the base class keeps what is shown, the program gets the same.

    def add(self, uri, entity, fields):
        name = super().add(uri, entity, fields)
        self.write(uri, name, {"op": "add", "entity": entity, "set": dict(fields)})
        return name

    def change(self, uri, name, fields):
        super().change(uri, name, fields)
        self.write(uri, name, {
            "op": "modify", "set": {field: value for field, value in fields.items() if value is not None},
            "clear": [field for field, value in fields.items() if value is None]})

    def delete(self, uri, name):
        super().delete(uri, name)
        self.write(uri, name, {"op": "delete"})

    def write(self, uri, name, item):
        if not self.writes or any(name in items for items in self.writes[-1].values()):
            self.writes.append({})
        self.writes[-1].setdefault(uri, {})[name] = item

    def flush(self):
        for items in self.writes:
            self.ask("write", *self.options, stdin=plistlib.dumps(items))
        self.writes = []

    def refresh(self):
        read = plistlib.loads(self.ask("read", *self.options))
        for uri, store in self.stores.items():
            store.records = {name: (record["entity"], record["fields"]) for name, record in read.get(uri, {}).items()}
            store.edits, store.pending = {}, None

    # Sync

    def sync(self, uris=None, cut_at=None, repeats=False):
        self.flush()
        words = list(self.options) + ["--json"]
        if self.info.get("max_items"):
            words += ["--items-max", str(self.info["max_items"])]
        process = None

        def kill():
            process.kill()

        is_killed = cut_at is not None and self.rng.random() < 0.5
        proxy = Proxy(self.port, cut_at, kill if is_killed else None, self.rng if repeats else None)
        try:
            process = subprocess.Popen(
                self.command("sync", *words, "--url", f"http://127.0.0.1:{proxy.port}/ota", "--app", "my-app",
                             "--account", self.email),
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT)
            output, errors = process.communicate(timeout=120)
        finally:
            proxy.close()
        assert proxy.fault is None, proxy.fault
        self.refresh()
        if proxy.is_cut:
            raise devices.Cut()
        assert process.returncode == 0, (errors.decode(), output.decode())
        for line in output.decode().splitlines():
            report = json.loads(line)
            if "renegotiation" in report:
                self.log.append((report["dataclass"], report["mode"], report["renegotiation"]))
            assert not report["refused"], report
        return proxy.messages


class RealmClient:
    """A Realm client that edits texts of the same objects offline, and makes and erases some."""

    CLASSES = [("example.bookmarks", "Bookmark", "url"), ("example.calendars", "Calendar", "title"),
               ("example.calendars", "Event", "title"), ("example.contacts", "Contact", "name")]

    def __init__(self, program, folder, port, email, partition, seed, rng):
        self.program, self.port, self.email, self.rng = program, port, email, rng
        self.name, self.made = f"realm-{seed}", 0
        self.options = ["--data", os.path.join(folder, self.name), "--path", f'my-app/"{partition}"']
        # A replica is made by the first synchronization.
        self.is_there = False

    def ask(self, *words, stdin=None, online=False, seconds=240):
        options = list(self.options)
        if online:
            options += ["--url", f"ws://127.0.0.1:{self.port}", "--timeout", "200"]
            # A log-in is kept, and takes longer than a session.
            options += [] if self.is_there else ["--email", self.email]
        result = subprocess.run([self.program, "client", *words, *options], input=stdin, capture_output=True,
                                env=ENVIRONMENT, timeout=seconds)
        assert result.returncode == 0, (words, result.stderr.decode())
        return result.stdout.decode()

    def objects(self):
        """The objects by class."""
        found = {}
        if not self.is_there:
            return found
        for line in self.ask("read", "--export").splitlines():
            value = json.loads(line)
            if isinstance(value, list):
                found.setdefault(value[0], []).append((value[1], value[2]))
        return found

    def fields(self, name):
        return [fields for _, fields in self.objects().get(name, [])]

    def sync(self, may_cut=False):
        """- Returns: false if the client was killed."""
        is_killed = may_cut and self.is_there and self.rng.random() < 0.2
        try:
            self.ask("read", online=True, seconds=self.rng.random() / 5 if is_killed else 240)
        except subprocess.TimeoutExpired:
            assert is_killed, "the Realm client does not end"
            return False
        self.is_there = True
        return True

    def edit(self, log):
        """- Returns: what was made and what was erased, as (uri, tag)."""
        made, erased, lines, found = [], [], [], self.objects()
        for _ in range(self.rng.randint(0, 3)):
            uri, name, field = self.rng.choice(self.CLASSES)
            objects = found.get(name)
            if objects is None:
                continue
            choice = self.rng.random()
            if choice < 0.3 or not objects:
                if name != "Contact":
                    continue
                self.made += 1
                tag, key = f"{self.name}-{self.made}", {"uuid": "%08x-0000-4000-8000-%012x" % (
                    self.rng.getrandbits(32), self.rng.getrandbits(48))}
                lines.append([name, key, {"tag": tag, field: "of Realm"}])
                made.append((uri, tag))
                continue
            key, fields = self.rng.choice(objects)
            if choice < 0.45:
                lines.append([name, key, None])
                erased.append((uri, fields.get("tag")))
                objects.remove((key, fields))
            else:
                lines.append([name, key, {field: f"Realm {self.rng.randint(0, 99)}"}])
        if lines:
            log.append(f"{self.name} writes {lines}")
            self.ask("write", stdin="\n".join(json.dumps(line) for line in lines).encode())
        return made, erased


class SimperiumClient:
    """A client of Simperium's wire, over HTTP, whose entities are the calendars of the devices. It edits offline, and
    sends what was cut off again, under the same `ccid`."""

    URI, BUCKET, FIELD = "example.calendars", "Calendar", "title"
    CLASSES = [(URI, BUCKET, FIELD)]

    def __init__(self, port, email, seed, rng):
        self.port, self.rng, self.name = port, rng, f"simperium-{seed}"
        self.made, self.entities, self.pending = 0, {}, []
        status, text = self.request("POST", "/1/my-app/authorize/", {"username": email, "password": "secret-word"})
        assert status == 200, (status, text)
        self.token = json.loads(text)["access_token"]

    def request(self, method, path, body=None, is_cut=False):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        headers = {"X-Simperium-Token": self.token} if not path.endswith("/authorize/") else {}
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            if is_cut:
                raise devices.Cut()
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def edit(self, log):
        """- Returns: what was made and what was erased, as (uri, tag)."""
        made, erased, free = [], [], sorted(set(self.entities) - {change[1] for change in self.pending})
        for _ in range(self.rng.randint(0, 3)):
            choice, body = self.rng.random(), {self.FIELD: f"Simperium {self.rng.randint(0, 99)}"}
            if choice < 0.4 or not free:
                self.made += 1
                tag, path = f"{self.name}-{self.made}", "%032x" % self.rng.getrandbits(128)
                change = ("POST", path, dict(body, tag=tag))
                made.append((self.URI, tag))
            else:
                key = free.pop(self.rng.randrange(len(free)))
                version, data = self.entities[key]
                change = ("POST", f"{key}/v/{version}", body) if choice < 0.85 else ("DELETE", key, None)
                if choice >= 0.85:
                    erased.append((self.URI, data.get("tag")))
            self.pending.append(change + ("%032x" % self.rng.getrandbits(128),))
            log.append(f"{self.name} edits {change}")
        return made, erased

    def sync(self, may_cut=False):
        """- Returns: false if it was cut, or if no device has made the class yet."""
        status, text = self.request("GET", self.path("index?limit=1"))
        if status != 200:
            assert b"class" in text, (status, text)
            return False
        while self.pending:
            method, path, body, ccid = self.pending[0]
            path = self.path(f"i/{path}?clientid={self.name}&ccid={ccid}")
            try:
                status, text = self.request(method, path, body, may_cut and self.rng.random() < 0.2)
            except devices.Cut:
                return False
            # 404: it was erased by others; 409 and 412: it came before, or changes nothing.
            assert status in (200, 404, 409, 412), (method, path, status, text)
            del self.pending[0]
        self.entities, mark = {}, ""
        while mark is not None:
            status, text = self.request("GET", self.path(f"index?data=1&limit=100&mark={mark}"))
            assert status == 200, (status, text)
            page = json.loads(text)
            self.entities.update((entry["id"], (entry["v"], entry["d"])) for entry in page["index"])
            mark = page.get("mark")
        return True

    def fields(self, name):
        return [data for _, data in self.entities.values()]

    def path(self, rest):
        return f"/1/my-app/{self.BUCKET}/{rest}"
