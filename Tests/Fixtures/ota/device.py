"""A device that syncs property lists over the air, written from the chapter alone."""

import copy
import http.client
import plistlib
import random
import uuid

OK, MULTI, LATER, NEGOTIATION = 200, 207, 202, 416


class Cut(Exception):
    """The connection was cut: the device goes back to its last checkpoint."""


class Failed(Exception):
    """The server has ended the session."""


class Store:
    """What the device keeps of a dataclass. A checkpoint is a copy of all of it."""

    def __init__(self):
        self.records = {}  # id: (entity, fields)
        self.kinds = {}  # the entities of records, also of those that are gone
        self.ids = {}  # the server's id: the device's
        self.leftover = {}  # of them, those that the server has not confirmed
        self.pending = None  # changes that are sent under a name until they are answered
        self.edits = {}  # id: "add", "delete", or the set of fields, since then
        self.accepted = None  # the last name that the server has taken
        self.anchor = None
        self.reset = None
        self.mode = "fast"


class Device:
    def __init__(self, port, path, token, user, name, form, binary, maps, schema, rng):
        self.port, self.path, self.token, self.user, self.name = port, path, token, user, name
        self.form, self.binary, self.maps, self.schema, self.rng = form, binary, maps, schema, rng
        self.stores = {uri: Store() for uri in schema}
        self.saved = copy.deepcopy(self.stores)
        self.counter = 0
        self.told_info = False
        self.info = {}
        self.filters = {}  # uri: the filter that the server is still to be told
        self.defers = False
        self.messages = 0
        self.log = []

    # Edits

    def new_id(self, entity, key):
        if self.maps:
            self.counter += 1
            return f"{self.name}-{self.counter}"
        if key == "uuid":
            return str(uuid.UUID(int=self.rng.getrandbits(128), version=4))
        if key == "objectId":
            return "%024x" % self.rng.getrandbits(96)
        return f"{entity}/{self.rng.getrandbits(50)}"

    def add(self, uri, entity, fields):
        store = self.stores[uri]
        name = self.new_id(entity, self.schema[uri][entity]["key"])
        store.records[name] = (entity, dict(fields))
        store.edits[name] = "add"
        self.save(uri)
        return name

    def change(self, uri, name, fields):
        store = self.stores[uri]
        for field, value in fields.items():
            if value is None:
                store.records[name][1].pop(field, None)
            else:
                store.records[name][1][field] = value
        if store.edits.get(name) != "add":
            store.edits[name] = store.edits.get(name, set()) | set(fields)
        self.save(uri)

    def delete(self, uri, name):
        store = self.stores[uri]
        self.remove(uri, name)
        if store.edits.get(name) == "add":
            del store.edits[name]
        else:
            store.edits[name] = "delete"
        self.save(uri)

    def remove(self, uri, name):
        store = self.stores[uri]
        if name in store.records:
            store.kinds[name] = store.records.pop(name)[0]
        for other, (entity, fields) in store.records.items():
            for field in self.schema[uri][entity]["links"]:
                if name in fields.get(field, []):
                    fields[field] = [link for link in fields[field] if link != name]
                    if not fields[field]:
                        del fields[field]

    def save(self, uri):
        self.saved[uri] = copy.deepcopy(self.stores[uri])

    def roll_back(self):
        self.stores = copy.deepcopy(self.saved)

    # Changes under a name

    def whole(self, entity, fields):
        return {"entity": entity, "fields": copy.deepcopy(fields)}

    def freeze(self, uri, mode):
        """Gives what has been edited a name, under which it is sent until it is answered."""
        store = self.stores[uri]
        edits, store.edits = store.edits, {}
        if store.pending is not None:  # refused as fast: what was in it is sent again
            for name, edit in store.pending["edits"].items():
                edits[name] = self.merged(edit, edits.get(name))
        commands = []
        if mode == "slow":
            items = {n: self.whole(e, f) for n, (e, f) in store.records.items()}
            commands.append(("records", items))
        if mode in ("fast", "slow"):
            items = {}
            for name, edit in edits.items():
                if edit is None or (mode == "slow" and edit == "add"):
                    continue
                form = "changes" if mode == "slow" else self.form
                item = self.item(store, name, edit, form)
                if item is not None:
                    items[name] = item
            if items or mode == "fast":
                commands.append(("changes" if mode == "slow" else self.form, items))
        self.counter += 1
        store.pending = {
            "name": f"{self.counter}.{self.rng.getrandbits(40):x}", "last": store.accepted, "mode": mode,
            "commands": commands, "edits": edits if mode != "reset" else {}}
        self.save(uri)

    @staticmethod
    def merged(old, new):
        if new is None or old is None:
            return old if new is None else new
        if new == "delete":
            return None if old == "add" else "delete"
        if old in ("add", "delete"):
            return old
        return "add" if new == "add" else old | new

    def item(self, store, name, edit, form):
        if edit == "delete":
            if form == "changes":
                return {"op": "delete"}
            return {"entity": store.kinds[name], "deleted": True}
        if name not in store.records:
            return None
        entity, fields = store.records[name]
        if form == "records":
            return self.whole(entity, fields)
        if edit == "add":
            return {"op": "add", "entity": entity, "set": copy.deepcopy(fields)}
        return {
            "op": "modify", "set": {f: copy.deepcopy(fields[f]) for f in edit if f in fields},
            "clear": sorted(f for f in edit if f not in fields)}

    # Messages

    def post(self, message):
        self.messages += 1
        body = plistlib.dumps(message, fmt=plistlib.FMT_BINARY if self.binary else plistlib.FMT_XML)
        if self.cut_at == 2 * self.messages - 1:
            raise Cut()
        answer = self.send(body)
        if self.cut_at == 2 * self.messages:
            raise Cut()
        if self.repeats and self.rng.random() < 0.2:
            assert self.send(body) == answer, "a repeated message has another answer"
        return plistlib.loads(answer)

    def send(self, body):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        headers = {"Authorization": "Bearer " + self.token,
                   "Content-Type": "application/octet-stream" if self.binary else "text/xml"}
        if self.cookie:
            headers["Cookie"] = self.cookie
        try:
            connection.request("POST", self.path, body, headers)
            response = connection.getresponse()
            data = response.read()
        except OSError as error:
            raise Cut() from error
        finally:
            connection.close()
        if response.status == 503:
            raise Cut()
        assert response.status == 200, (response.status, data)
        self.cookie = (response.getheader("Set-Cookie") or self.cookie or "").split(";")[0] or None
        return data

    def message(self, body, final=False):
        self.sequence += 1
        header = {"version": "1.0", "deviceid": self.name, "service": "sync", "userid": self.user,
                  "sequence": self.sequence}
        if final:
            header["final"] = True
        answer = self.post({"header": header, "body": body})
        head = answer["header"]
        assert head["sequence"] == self.sequence, head
        result = head.get("result", {"code": OK})
        if int(result["code"]) != OK:
            raise Failed(result)
        return answer

    def command(self, name, more=False, **params):
        self.commands += 1
        item = {"name": name, "sequence": self.commands, "params": params}
        if more:
            item["more"] = True
        self.asked[self.commands] = item
        return item

    def sync(self, uris=None, cut_at=None, repeats=False):
        """One session. Returns the number of messages."""
        self.cookie, self.sequence, self.commands, self.asked = None, 0, 0, {}
        self.cut_at, self.messages, self.repeats = cut_at, 0, repeats
        try:
            self.session(uris or list(self.schema))
        except (Cut, Failed):
            self.roll_back()
            raise
        return self.messages

    def session(self, uris):
        self.open = {uri: "start" for uri in uris}
        body = []
        if not self.told_info or self.rng.random() < 0.1:
            if self.rng.random() < 0.7:
                body.append(self.command("put", uri="deviceinfo", value=self.device_info()))
        for uri, value in self.filters.items():
            body.append(self.command("put", uri=f"{uri}/filter", value=value))
        for uri in uris:
            store = self.stores[uri]
            if store.pending is None:
                self.freeze(uri, store.mode)
            body += self.start(uri)
        while True:
            answer = self.message(body)
            body = self.take(answer)
            final = answer["header"].get("final", False)
            if final:
                if body and not self.defers:
                    answer = self.message(body, final=True)
                    assert not answer["body"], answer
                    for uri in uris:
                        self.stores[uri].leftover = {}
                        self.save(uri)
                assert all(state in ("done", "ended") for state in self.open.values()), self.open
                return
            assert self.messages < 200, "the session does not end"

    def device_info(self):
        classes = {}
        for uri, entities in self.schema.items():
            fields = {e: sorted(s["fields"]) + sorted(s["links"]) for e, s in entities.items()}
            classes[uri] = {"item_type": self.form, "idmap": self.maps, "entities": fields}
        return dict({"model": "test", "dataclasses": classes}, **self.info)

    def start(self, uri):
        store = self.stores[uri]
        pending = store.pending
        anchors = {"mode": pending["mode"], "next_device_anchor": pending["name"]}
        for key, value in (("last_device_anchor", pending["last"]), ("last_server_anchor", store.anchor),
                           ("reset_anchor", store.reset)):
            if value is not None:
                anchors[key] = value
        self.open[uri] = "pull"
        body = [self.command("sync-start", uri=uri, anchors=anchors)]
        if store.leftover:
            body.append(self.command("sync-changes", uri=uri, items=[], idmap=dict(store.leftover)))
        commands = pending["commands"] or [(self.form, {})]
        for index, (form, items) in enumerate(commands):
            body.append(self.command("sync-changes", uri=uri, item_type=form, items=items or [],
                                     more=index < len(commands) - 1))
        return body

    # The server's messages

    def take(self, answer):
        body = []
        for item in answer["body"]:
            if item.get("response"):
                body += self.take_response(item)
        pushed = []
        for item in answer["body"]:
            if not item.get("response"):
                body.append(self.respond(item))
                if item["name"] == "sync-changes" and not item.get("more"):
                    pushed.append(item["params"]["uri"])
        # The server commits in the message of its last changes, or leaves it to the device.
        for uri in pushed:
            if self.open[uri] == "pull":
                self.open[uri] = "commit"
                anchors = {"next_device_anchor": self.stores[uri].accepted}
                body.append(self.command("sync-commit", uri=uri, anchors=anchors))
        return body

    def take_response(self, item):
        asked = self.asked[item["sequence"]]
        assert item["name"] == asked["name"], (item, asked)
        uri, codes = item["params"].get("uri"), [int(status["code"]) for status in item["result"]]
        if asked["name"] == "put":
            assert codes == [OK], item
            if uri == "deviceinfo":
                self.told_info = True
            else:
                del self.filters[uri.removesuffix("/filter")]
            return []
        store = self.stores[uri]
        if asked["name"] == "sync-commit":
            assert codes == [OK], item
            store.anchor = item["params"]["anchors"]["next_server_anchor"]
            # The ids were in the message of the commit.
            store.leftover = {}
            self.open[uri] = "done"
            self.save(uri)
            return []
        if asked["name"] == "sync-start":
            if codes[0] == NEGOTIATION:
                anchors = item["params"]["anchors"]
                self.log.append((uri, anchors["mode"], item["result"][0].get("description")))
                if anchors.get("last_device_anchor") == store.pending["name"]:
                    store.accepted, store.pending = store.pending["name"], None
                store.accepted = anchors.get("last_device_anchor", store.accepted)
                if anchors["mode"] == "reset":
                    store.records, store.ids, store.leftover = {}, {}, {}
                    store.edits, store.pending = {}, None
                    store.reset = anchors["reset_anchor"]
                    self.open[uri] = "reset"
                self.freeze(uri, anchors["mode"])
                return self.start(uri)
            assert codes == [OK], item
            return []
        if asked["name"] == "sync-changes":
            if codes[0] in (LATER, 413):
                return []
            assert codes[0] in (OK, MULTI), item
            if asked["params"].get("idmap"):
                store.leftover = {}
                return []
            self.failures = {status["param_key"]: int(status["code"]) for status in item["result"][1:]}
            if store.pending is not None and not asked.get("more"):
                if store.pending["mode"] == "slow":
                    store.ids, store.leftover = {}, {}
                store.accepted, store.pending = store.pending["name"], None
                store.mode = "fast"
        return []

    def respond(self, item):
        uri = item["params"]["uri"]
        response = {"name": item["name"], "sequence": item["sequence"], "response": True, "params": {"uri": uri},
                    "result": [{"code": OK}]}
        if item["name"] == "get":
            assert uri == "deviceinfo", item
            response["params"]["value"] = self.device_info()
            self.told_info = True
            return response
        store = self.stores[uri]
        anchors = item["params"].get("anchors", {})
        if item["name"] == "sync-changes":
            idmap = self.apply(uri, item["params"].get("item_type"), item["params"]["items"] or {})
            if idmap:
                response["params"]["idmap"] = idmap
                store.leftover.update(idmap)
        else:
            assert item["name"] == "sync-commit", item
            self.open[uri] = "done"
            store.reset = anchors.get("reset_anchor", store.reset)
        if "next_server_anchor" in anchors:
            store.anchor = anchors["next_server_anchor"]
            self.save(uri)
        return response

    def apply(self, uri, form, items):
        store, idmap, places = self.stores[uri], {}, {}
        edits = store.edits
        for name, item in items.items():
            mine = store.ids.get(name, name)
            gone = item.get("deleted") or item.get("op") == "delete"
            if mine not in store.records and not gone and edits.get(mine) != "delete":
                entity = item.get("entity")
                if entity is None:
                    continue
                if self.maps:
                    mine = self.new_id(entity, None)
                    idmap[name] = mine
                    store.ids[name] = mine
                store.records[mine] = (entity, {})
            places[name] = mine
        for name, item in items.items():
            mine = places.get(name)
            if mine is None:
                continue
            if item.get("deleted") or item.get("op") == "delete":
                self.remove(uri, mine)
                edits.pop(mine, None)
                continue
            if mine not in store.records:
                continue
            entity, fields = store.records[mine]
            kept = edits.get(mine, set())
            kept = set(fields) if kept == "add" else kept
            values = item["fields"] if form == "records" else item.get("set", {})
            cleared = set(fields) - set(values) if form == "records" else item.get("clear", [])
            for field, value in values.items():
                if field in self.schema[uri][entity]["links"]:
                    value = [store.ids.get(link, link) for link in value]
                    value = [link for link in value if link in store.records]
                if field in kept:
                    continue
                if value == [] or value == {}:
                    fields.pop(field, None)
                else:
                    fields[field] = value
            for field in cleared:
                if field not in kept:
                    fields.pop(field, None)
        return idmap

    # For comparing

    def content(self, uri):
        """The records by their tags, with tags instead of ids in links."""
        records = self.stores[uri].records
        tags = {name: fields.get("tag") for name, (entity, fields) in records.items()}
        content = {}
        for name, (entity, fields) in records.items():
            shown = {}
            for field, value in fields.items():
                if field in self.schema[uri][entity]["links"]:
                    value = [tags.get(link, "?") for link in value]
                shown[field] = value
            assert fields.get("tag") not in content, f"{fields.get('tag')} is there twice"
            content[fields.get("tag")] = shown
        return content


def schema(*files):
    """The dataclasses of registration files, as a device knows them."""
    import json
    found = {}
    for file in files:
        with open(file) as text:
            read = json.load(text)
        found[read["dataclass"]] = {
            name: {"key": entity.get("key_type", "uuid"), "fields": {f: v["type"] for f, v in entity["fields"].items()},
                   "links": {f: v for f, v in entity.get("relationships", {}).items()}}
            for name, entity in read["entities"].items()}
    return found
