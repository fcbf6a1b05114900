"""Simperium3 and simplenote, unmodified, with a server as a process of its own, while a streaming client listens.

    data_clients_test.py PATH_OF_ANABRANCH

A line that begins with `ok` says what has been shown. The first failure ends the script with status 1.
"""

import json
import subprocess
import sys
import tempfile
import threading

import requests
import simperium.core
import simplenote.simplenote
from streaming import Streaming

APP = "my-app"
CONFIGURATION = """
listen: 127.0.0.1:0
data: {data}
rules: everybody
apps:
  my-app:
    providers: [local-userpass]
    simperium:
      buckets: {{small: {{entity-bytes: 1024, strict-deletes: true}}}}
      administrators: [administrators.json]
"""
ADMINISTRATOR = "0123456789abcdef0123456789abcdef"


def expect(found, wanted):
    assert found == wanted, f"{found!r} instead of {wanted!r}"


def status_of(call):
    """The HTTP status with which a call of Simperium3 fails."""
    try:
        result = call()
    except requests.HTTPError as error:
        return error.response.status_code
    raise AssertionError(f"it does not fail: {result!r}")


def ok(what):
    print("ok", what, flush=True)


class Changes:
    """What a listening client is told of a bucket: the newest version and content of each entity."""

    def __init__(self, port, token, bucket):
        self.stream = Streaming(port, f"/sock/1/{APP}/websocket")
        opening = {"name": bucket, "clientid": "listener", "api": "1.1", "token": token, "app_id": APP, "library": "test"}
        self.stream.send("0:init:" + json.dumps(opening))
        assert self.stream.receive().startswith("0:auth:ann")
        self.stream.send("0:i:1:::")
        self.waiting = []
        assert self.stream.receive().startswith("0:i:")

    def next(self):
        """The next change: its key, kind, `sv`, `ev` and ccids."""
        while not self.waiting:
            message = self.stream.receive()
            assert message.startswith("0:c:"), message
            self.waiting += json.loads(message[4:])
        return self.waiting.pop(0)


def simperium3(port):
    host = {"host": f"127.0.0.1:{port}", "scheme": "http"}
    auth = simperium.core.Auth(APP, "any-key", **host)
    token = auth.create("ann@example.com", "secret-word")
    assert len(token) >= 32 and token.isalnum()
    expect(status_of(lambda: auth.create("ann@example.com", "secret-word")), 409)
    assert len(auth.authorize("ann@example.com", "secret-word")) >= 32
    ok("Auth.create, Auth.authorize")

    api = simperium.core.Api(APP, auth_token=token, **host)
    note = api.note
    listener = Changes(port, token, "note")
    expect(note.index()["index"], [])
    start = note.index()["current"]

    expect(note.post("k", {"title": "héllo", "n": 1}), "k")
    change = listener.next()
    expect((change["id"], change["o"], change.get("sv"), change["ev"]), ("k", "M", None, 1))
    expect(change["v"], {"title": {"o": "+", "v": "héllo"}, "n": {"o": "+", "v": 1}})
    expect(change["clientid"][:3], "py-")
    expect(note.get("k"), {"title": "héllo", "n": 1})
    expect(note.get("none", default=7), 7)
    ok("Bucket.post, Bucket.get")

    expect(note.post("k", {"n": 2}, ccid="same", include_response=True), ("k", {"title": "héllo", "n": 2}))
    expect(listener.next()["ccids"], ["same"])
    expect(status_of(lambda: note.post("k", {"n": 3}, ccid="same")), 409)
    expect(status_of(lambda: note.post("k", {"n": 2})), 412)
    # An edit of the first version keeps what has come since.
    edited = note.post("k", {"title": "héllo 🐙"}, version=1, include_response=True)
    expect(edited, ("k", {"title": "héllo 🐙", "n": 2}))
    change = listener.next()
    expect((change["sv"], change["ev"]), (2, 3))
    expect(change["v"], {"title": {"o": "d", "v": "=5\t+ %F0%9F%90%99"}})
    expect(note.post("k", {"only": [1, {"a": None}]}, replace=True, include_response=True)[1], {"only": [1, {"a": None}]})
    expect(listener.next()["ev"], 4)
    expect([note.get("k", version=number) for number in (1, 2, 3)], [
        {"title": "héllo", "n": 1}, {"title": "héllo", "n": 2}, {"title": "héllo 🐙", "n": 2}])
    expect(note.get("k", default="none", version=9), "none")
    expect(status_of(lambda: note.post("k", {"n": 4}, version=9)), 405)
    expect(status_of(lambda: note.post("absent", {"n": 4}, version=1)), 404)
    ok("versions, ccids and replacements")

    # From the first word of a note to the last, at once: each keeps what the other has made of it.
    note.post("text", {"t": "one two three"})
    note.post("text", {"t": "ONE two three"}, version=1)
    expect(note.post("text", {"t": "one two THREE"}, version=1, include_response=True)[1], {"t": "ONE two THREE"})
    expect([listener.next()["ev"] for _ in range(3)], [1, 2, 3])
    ok("edits of one text merge")

    expect(note.set("s", {"a": 1}), "s")
    key = note.new({"made": True})
    expect(note.get(key), {"made": True})
    other, made = note.new({"b": 2}, ccid="x1", include_response=True)
    expect(made, {"b": 2})
    for name in ("a b", "é%", "a.b", "x@y", "..."):
        expect(note.post(name, {"name": name}), name)
        expect(note.get(name), {"name": name})
    expect(status_of(lambda: note.post("a%2Fb", {"a": 1})), 400)
    expect([listener.next()["id"] for _ in range(8)], ["s", key, other, "a b", "é%", "a.b", "x@y", "..."])
    ok("Bucket.set, Bucket.new, keys of all kinds")

    made = note.bulk_post({f"b{number}": {"n": number} for number in range(150)})
    expect([change["ev"] for change in made], [1] * 150)
    assert note.bulk_post({"b0": {"n": 5}, "b1": {"m": 1}}, wait=False) is True
    expect((note.get("b0"), note.get("b1")), ({"n": 5}, {"n": 1, "m": 1}))
    expect([listener.next()["id"] for _ in range(152)][-2:], ["b0", "b1"])
    errors = note.bulk_post({"b0": {"n": 5}, "a/b": {}})
    expect([error["error"] for error in errors], [412, 400])
    ok("Bucket.bulk_post")

    page = note.index(limit=50)
    assert all("d" not in entry for entry in page["index"])
    expect([entry["id"] for entry in page["index"][:2]], ["b1", "b0"])
    keys = [entry["id"] for entry in page["index"]]
    while "mark" in page:
        page = note.index(data=True, mark=page["mark"], limit=50)
        keys += [entry["id"] for entry in page["index"]]
        assert all(note.get(entry["id"]) == entry["d"] for entry in page["index"][:3])
    expect((len(keys), len(set(keys))), (160, 160))
    middle = note.index(limit=1)["current"]
    expect(note.index(since=middle)["index"], [])
    expect(len(note.index(since=start, limit=1000)["index"]), 160)
    expect(len(note.index(since="f" * 40, limit=1000)["index"]), 160)
    note.post("k", {"late": 1})
    expect([(entry["id"], entry["v"]) for entry in note.index(since=middle)["index"]], [("k", 5)])
    expect(listener.next()["id"], "k")
    ok("Bucket.index with pages, since a version")

    expect([(change["id"], change["ev"]) for change in note.changes(cv=middle)], [("k", 5)])
    ccid = note.delete("s", version=1)
    expect(listener.next()["ccids"], [ccid])
    expect(status_of(lambda: note.delete("s")), 404)
    expect(status_of(lambda: note.delete("never")), 404)
    assert note.delete("k")
    expect((listener.next()["o"], note.get("k")), ("-", None))
    expect([change["o"] for change in note.changes(cv=middle)], ["M", "-", "-"])
    expect(status_of(lambda: note.changes(cv="f" * 40)), 404)
    ok("Bucket.delete, Bucket.changes")

    told = []
    waiting = threading.Thread(target=lambda: told.extend(note.changes()))
    waiting.start()
    # Whenever it begins to wait, the next of these is what it hears.
    number = 0
    while waiting.is_alive():
        number += 1
        note.post("tick", {"n": number})
        waiting.join(0.05)
    expect([change["id"] for change in told], ["tick"])
    for _ in range(number):
        expect(listener.next()["id"], "tick")
    ok("Bucket.changes waits until there are some")

    everything = note.all(cv=middle, data=True, username=True)
    expect([change["id"] for change in everything[:3]], ["k", "s", "k"])
    expect(everything[0]["username"], "ann@example.com")
    expect(everything[0]["d"], {"only": [1, {"a": None}], "late": 1})
    newest = note.all(cv=middle, most_recent=True)
    expect([(change["id"], change["o"]) for change in newest], [("s", "-"), ("k", "-"), ("tick", "M")])
    expect(len(note.all(cv=middle, batch=2)), 2)
    stranger = simperium.core.Api(APP, auth_token=token, clientid="stranger", **host)
    stranger.note.post("mine", {"a": 1})
    expect(listener.next()["clientid"], "stranger")
    skipped = note.all(cv=middle, skip_clientids=["nobody", note.clientid])
    expect([change["id"] for change in skipped], ["mine"])
    ok("Bucket.all")

    expect(api.spuser.post({"wants": "mail"}), "info")
    expect(api.spuser.get(), {"wants": "mail"})
    expect(api["note"].get("mine"), {"a": 1})
    ok("SPUser.get, SPUser.post")

    login = {"username": "ann@example.com", "password": "secret-word"}
    user = requests.post(f"http://127.0.0.1:{port}/1/{APP}/authorize/", json=login, timeout=60).json()["userid"]
    administrator = simperium.core.Api(APP, auth_token=ADMINISTRATOR, userid=user, **host)
    expect(administrator.note.get("mine"), {"a": 1})
    expect(administrator.note.post("mine", {"b": 2}, include_response=True)[1], {"a": 1, "b": 2})
    expect(status_of(lambda: simperium.core.Api(APP, auth_token=ADMINISTRATOR, **host).note.index()), 400)
    expect(status_of(lambda: simperium.core.Api(APP, auth_token=ADMINISTRATOR, userid="x", **host).note.index()), 401)
    ok("Api of an administrator, for a user")

    small = api.small
    expect(status_of(lambda: small.post("k", {"t": "x" * 2000})), 413)
    small.post("k", {"t": "x"})
    small.post("k", {"t": "y"})
    expect(status_of(lambda: small.delete("k", version=1)), 405)
    assert small.delete("k", version=2)
    for wrong in ("f" * 64, "short"):
        nobody = simperium.core.Api(APP, auth_token=wrong, **host)
        expect(status_of(lambda: nobody.note.index()), 401)
        expect(status_of(lambda: nobody.note.post("k", {})), 401)
    expect(status_of(lambda: simperium.core.Api("other", auth_token=token, **host).note.index()), 404)
    expect(status_of(lambda: simperium.core.Api(APP, auth_token=token, userid="bob", **host).note.index()), 401)
    expect(status_of(lambda: api["a b"].index()), 404)
    ok("refusals")


def simplenote_client(port):
    base = f"http://127.0.0.1:{port}/1/{APP}"
    # The package has its server as constants; nothing else of it is touched.
    simplenote.simplenote.AUTH_URL = f"{base}/authorize/"
    simplenote.simplenote.DATA_URL = f"{base}/note"
    simplenote.simplenote.NOTE_FETCH_LENGTH = 3
    auth = simperium.core.Auth(APP, "any-key", host=f"127.0.0.1:{port}", scheme="http")
    token = auth.create("ann+notes@example.com", "secret-word")
    client = simplenote.Simplenote("ann+notes@example.com", "secret-word")
    assert len(client.get_token()) >= 32
    listener = Changes(port, token, "note")

    note, status = client.add_note("first\nline")
    expect((status, note["content"], note["version"]), (0, "first\nline", 1))
    tagged, status = client.add_note({"content": "tagged", "tags": ["a"]})
    expect((status, tagged["tags"]), (0, ["a"]))
    expect(client.get_note(note["key"])[0]["content"], "first\nline")
    expect(listener.next()["id"], note["key"])
    expect(listener.next()["id"], tagged["key"])
    ok("get_token, add_note, get_note")

    # Somebody else writes, and then the note as it was read is written.
    simperium.core.Api(APP, auth_token=token, host=f"127.0.0.1:{port}", scheme="http").note.post(
        note["key"], {"content": "first\nline\nof somebody"}, version=1)
    note["content"] = "The first\nline"
    updated, status = client.update_note(note)
    expect((status, updated["content"], updated["version"]), (0, "The first\nline\nof somebody", 3))
    expect([listener.next()["ev"] for _ in range(2)], [2, 3])
    expect(client.get_note(note["key"], 1)[0]["content"], "first\nline")
    ok("update_note merges, get_note of a version")

    keys = {note["key"], tagged["key"]}
    for number in range(9):
        keys.add(client.add_note(f"note {number}")[0]["key"])
        listener.next()
    # Four pages of three, with all marks so far in each request.
    notes, status = client.get_note_list()
    expect((status, {note["key"] for note in notes}, len(notes)), (0, keys, 11))
    expect([note["content"] for note in client.get_note_list(tags=["a"])[0]], ["tagged"])
    since = simperium.core.Api(APP, auth_token=token, host=f"127.0.0.1:{port}", scheme="http").note.index()["current"]
    tagged["content"] = "tagged later"
    expect(client.update_note(tagged)[1], 0)
    listener.next()
    expect([note["content"] for note in client.get_note_list(since=since)[0]], ["tagged later"])
    ok("get_note_list")

    trashed, status = client.trash_note(tagged["key"])
    assert status == 0 and trashed["deleted"], trashed
    expect(listener.next()["v"]["deleted"], {"o": "r", "v": True})
    expect(client.delete_note(tagged["key"])[1], 0)
    expect((listener.next()["o"], client.get_note(tagged["key"])[1]), ("-", -1))
    # One that is not in the trash is put there first.
    expect(client.delete_note(note["key"])[1], 0)
    expect([listener.next()["o"] for _ in range(2)], ["M", "-"])
    expect(client.get_note(note["key"], 3)[0]["content"], "The first\nline\nof somebody")
    ok("trash_note, delete_note")

    wrong = simplenote.Simplenote("ann+notes@example.com", "another-word")
    try:
        wrong.get_token()
        raise AssertionError("a wrong password is taken")
    except simplenote.SimplenoteLoginFailed:
        ok("a wrong password")


def main(program):
    with tempfile.TemporaryDirectory() as home:
        configuration = f"{home}/anabranch.yaml"
        with open(configuration, "w", encoding="utf-8") as file:
            file.write(CONFIGURATION.format(data=f"{home}/data"))
        with open(f"{home}/administrators.json", "w", encoding="utf-8") as file:
            json.dump([ADMINISTRATOR], file)
        with open(f"{home}/log", "w", encoding="utf-8") as log:
            server = subprocess.Popen(
                [program, "serve", "--config", configuration], stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            line = server.stdout.readline()
            assert line.startswith("listening on "), open(f"{home}/log", encoding="utf-8").read()
            port = int(line.rsplit(":", 1)[1])
            simperium3(port)
            simplenote_client(port)
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main(sys.argv[1])
