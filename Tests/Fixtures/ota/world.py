"""Devices of all kinds on one account, in Python and those of `anabranch ota`, with a Realm client and a client of
Simperium's wire on the same objects, with a server and devices that are killed and connections that are cut at random:
at rest all have the same. As many worlds go on at once as there are processors.
`world.py ANABRANCH SEED COUNT`, so many worlds; `world.py ANABRANCH SEED sessions=COUNT`, so many that devices of each
form and language had so many sessions."""

import collections
import concurrent.futures
import datetime
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import traceback
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import device as devices
import programs

HERE = os.path.dirname(os.path.abspath(__file__))
FILES = [os.path.join(HERE, name) for name in ("contacts.json", "calendars.json", "bookmarks.json")]
SCHEMA = devices.schema(*FILES)


# The dataclasses that devices commit themselves on every second server.
BY_DEVICE = ("example.contacts", "example.bookmarks")


def command_in(words, partitions="ota", by_device=()):
    """The command that serves a folder of its own: with a configuration, if it is `anabranch`."""
    folder = tempfile.mkdtemp()
    if len(words) > 1:
        return [word.replace("FOLDER", folder) for word in words]
    files = [os.path.join(folder, os.path.basename(path)) for path in FILES]
    for path, copy in zip(FILES, files):
        with open(path) as file:
            registration = json.load(file)
        if registration["dataclass"] in by_device:
            registration["commit"] = "device"
        with open(copy, "w") as file:
            json.dump(registration, file)
    with open(os.path.join(folder, "anabranch.yaml"), "w") as file:
        file.write(f"""data: {folder}/data
listen: 127.0.0.1:0
rules: {folder}/rules.yaml
log-level: error
apps:
  my-app:
    providers: [local-userpass]
    property-list: {{url: /ota, folder: {partitions}, dataclasses: [{', '.join(files)}]}}
    simperium: {{buckets: {{Calendar: {{form: typed}}}}}}
""")
    with open(os.path.join(folder, "rules.yaml"), "w") as file:
        file.write(f"rules:\n  - path: '\"{partitions}/${{user}}\"'\n    right: write\n")
    return [words[0], "serve", "--config", os.path.join(folder, "anabranch.yaml")]


class Server:
    def __init__(self, command):
        self.command, self.process = command, None
        self.start()

    def make_user(self, name):
        self.request("auth/providers/local-userpass/register", {"email": name, "password": "secret-word"})
        login = self.request("auth/providers/local-userpass/login", {"username": name, "password": "secret-word"})
        self.token, self.user = login["access_token"], login["user_id"]

    def start(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline().rsplit(":", 1)[1])

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()

    def request(self, path, body):
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/api/client/v2.0/app/my-app/{path}", json.dumps(body).encode(),
            {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as response:
            text = response.read()
        return json.loads(text) if text else None


class World:
    # What filters look at: the entity, its link to containers, its date.
    CONTAINERS = {"example.contacts": ("contact", "groups", None), "example.calendars": ("event", "calendar", "start")}

    def __init__(self, server, schema, seed, log):
        self.server, self.schema, self.rng, self.log = server, schema, random.Random(seed), log
        self.tags = 0
        self.seed = seed
        self.sessions = collections.Counter()
        self.made, self.deleted = set(), set()
        self.devices = []
        # A server of another configuration is not one of `anabranch`, and so has no such clients.
        program = server.command[0] if server.command[1] == "serve" else None
        self.folder = tempfile.TemporaryDirectory()
        # Clients of other wires.
        self.others = []
        for index, (form, binary, maps) in enumerate(
                self.rng.sample([("records", False, True), ("changes", True, True), ("changes", False, False),
                                 ("records", True, False)], self.rng.randint(2, 3))):
            is_program = program is not None and (index == 0 or self.rng.random() < 0.15)
            self.devices.append(self.device(f"d{index}-{seed}", form, binary, maps, program if is_program else None))
        email = f"{seed}@example.com"
        if program is not None and self.rng.random() < 0.5:
            self.others.append(programs.RealmClient(
                program, self.folder.name, server.port, email, f"simperium/{server.user}", seed, self.rng))
        if program is not None and self.rng.random() < 0.5:
            self.others.append(programs.SimperiumClient(server.port, email, seed, self.rng))

    def device(self, name, form, binary, maps, program=None):
        arguments = (self.server.port, "/ota", self.server.token, self.server.user, name, form, binary, maps,
                     self.schema, self.rng)
        device = devices.Device(*arguments) if program is None else programs.ProgramDevice(
            program, self.folder.name, FILES, f"{self.seed}@example.com", *arguments)
        if self.rng.random() < 0.5:
            device.info = {"max_items": self.rng.choice([2, 5, 100])}
        device.defers = self.rng.random() < 0.4
        device.shown = {}
        return device

    def value(self, kind):
        rng = self.rng
        return {
            "string": lambda: rng.choice(["a", "b", "<c>&", "d\u00e9", "\U0001F600", "x" * rng.randint(1, 90)]),
            "integer": lambda: rng.randint(-2**63, 2**63 - 1), "string-integer": lambda: str(rng.randint(-9, 9)),
            "real": lambda: rng.choice([0.5, -1.25, 1e300, 3.0]), "boolean": lambda: rng.random() < 0.5,
            "date": lambda: datetime.datetime(rng.randint(1, 9999), 3, rng.randint(1, 28), 1, 2, rng.randint(0, 59)),
            "data": lambda: rng.randbytes(rng.randint(1, 40)),
            "array": lambda: [rng.choice(["a", 1, 2.5, True, b"x", [], ["n", {"k": [1]}]])
                              for _ in range(rng.randint(1, 3))],
            "dictionary": lambda: {rng.choice("abc"): rng.choice(["a", 1, 2.5, ["n"], {"n": {}, "m": 2}])
                                   for _ in range(2)},
        }[kind]()

    def links(self, device, uri, entity, field):
        relationship = self.schema[uri][entity]["links"][field]
        targets = [name for name, (kind, _) in device.stores[uri].records.items() if kind == relationship["entity"]]
        count = self.rng.randint(0, min(3, len(targets))) if relationship.get("many") else self.rng.randint(0, 1)
        return self.rng.sample(targets, min(count, len(targets)))

    def fields(self, device, uri, entity, all_fields):
        chosen = {}
        for field, kind in self.schema[uri][entity]["fields"].items():
            if field != "tag" and self.rng.random() < (0.7 if all_fields else 0.3):
                chosen[field] = None if not all_fields and self.rng.random() < 0.2 else self.value(kind)
        for field in self.schema[uri][entity]["links"]:
            if self.rng.random() < 0.5:
                links = self.links(device, uri, entity, field)
                if links:
                    chosen[field] = links
                elif not all_fields:
                    chosen[field] = None
        return chosen

    def edit(self, device):
        uri = self.rng.choice(list(self.schema))
        records = device.stores[uri].records
        if not records or self.rng.random() < 0.35:
            entity = self.rng.choice(list(self.schema[uri]))
            self.tags += 1
            tag = f"{self.seed}-{self.tags}"
            name = device.add(uri, entity, dict(self.fields(device, uri, entity, True), tag=tag))
            self.made.add((uri, tag))
            self.log.append(f"{device.name} adds {uri} {entity} {name} {tag} {records[name][1]}")
            return
        name = self.rng.choice(sorted(records))
        entity = records[name][0]
        if self.rng.random() < 0.2:
            self.deleted.add((uri, records[name][1]["tag"]))
            self.log.append(f"{device.name} deletes {uri} {name} {records[name][1]['tag']}")
            device.delete(uri, name)
            return
        fields = self.fields(device, uri, entity, False)
        if fields:
            self.log.append(f"{device.name} changes {uri} {name} {records[name][1]['tag']} {fields}")
            device.change(uri, name, fields)

    def set_filter(self, device):
        """Has a device show only what is in some containers, or not long ago."""
        uri = self.rng.choice(list(self.CONTAINERS))
        entity, link, date = self.CONTAINERS[uri]
        target = self.schema[uri][entity]["links"][link]["entity"]
        ids = sorted(name for name, (kind, _) in device.stores[uri].records.items() if kind == target)
        value, shown = {}, {}
        if self.rng.random() < 0.6:
            value["constrain_containers"] = self.rng.sample(ids, self.rng.randint(0, min(2, len(ids))))
            shown["tags"] = {device.stores[uri].records[name][1]["tag"] for name in value["constrain_containers"]}
        if ids and self.rng.random() < 0.3:
            value["default_container"] = self.rng.choice(ids)
        if date is not None and self.rng.random() < 0.6:
            value["discard_after_days"] = self.rng.randint(0, 100_000)
            shown["since"] = datetime.datetime.combine(
                datetime.datetime.now(datetime.timezone.utc).date(), datetime.time()) - datetime.timedelta(
                    value["discard_after_days"])
        device.filters[uri], device.shown[uri] = value, shown
        self.log.append(f"{device.name} filters {uri}: {value} {shown}")

    def is_shown(self, uri, entity, fields, shown):
        """True if a record, whose links are tags, is shown on a device."""
        kind, link, date = self.CONTAINERS[uri]
        if entity != kind:
            return True
        if "tags" in shown and not shown["tags"].intersection(fields.get(link, [])):
            return False
        return "since" not in shown or date not in fields or fields[date] >= shown["since"]

    def sync(self, device, calm=False):
        cut = None if calm or self.rng.random() < 0.5 else self.rng.randint(1, 12)
        uris = [uri for uri in self.schema if calm or self.rng.random() < 0.8] or list(self.schema)
        language = "Swift" if isinstance(device, programs.ProgramDevice) else "Python"
        self.sessions[f"{device.form} in {language}"] += 1
        try:
            count = device.sync(uris, cut, repeats=not calm)
            self.log.append(f"{device.name} syncs {uris} in {count} messages {device.log}")
        except devices.Cut:
            assert not calm, "a calm session is cut"
            self.log.append(f"{device.name} is cut at {cut}: {uris} {device.log}")
        device.log = []

    def sync_other(self, client, calm=False):
        self.sessions[f"of {client.name.split('-')[0]}"] += 1
        self.log.append(f"{client.name} syncs" if client.sync(not calm) else f"{client.name} is cut")

    def run(self):
        for _ in range(self.rng.randint(5, 25)):
            device = self.rng.choice(self.devices)
            for _ in range(self.rng.randint(0, 4)):
                self.edit(device)
            # The devices of programs have no filters.
            if not isinstance(device, programs.ProgramDevice) and self.rng.random() < 0.1:
                self.set_filter(device)
            self.sync(device)
            for client in self.others:
                if self.rng.random() > 0.3:
                    continue
                made, erased = client.edit(self.log)
                self.made.update(made)
                self.deleted.update(erased)
                if self.rng.random() < 0.7:
                    self.sync_other(client)
            if self.rng.random() < 0.04:
                self.log.append("the server is killed")
                self.server.kill()
                self.server.start()
                for client in self.devices + self.others:
                    client.port = self.server.port
        # Also what makes the classes of the others.
        for _ in range(4):
            for device in self.devices:
                self.sync(device, calm=True)
            for client in self.others:
                self.sync_other(client, calm=True)
        fresh = self.device(f"fresh-{self.seed}", "changes", True, self.rng.random() < 0.5)
        self.sync(fresh, calm=True)
        for uri in self.schema:
            expected = fresh.content(uri)
            entities = {fields["tag"]: entity for entity, fields in fresh.stores[uri].records.values()}
            for device in self.devices:
                found = device.content(uri)
                shown = {tag: fields for tag, fields in expected.items() if uri not in device.shown
                         or self.is_shown(uri, entities[tag], fields, device.shown[uri])}
                mine = {tag for other, tag in self.made if other == uri}
                for tag in sorted(set(found) | set(shown)):
                    assert found.get(tag) == shown.get(tag), \
                        f"{uri} {tag}: {device.name} has {found.get(tag)}, the server {shown.get(tag)}"
                lost = mine - set(expected) - {tag for other, tag in self.deleted if other == uri}
                assert not lost, f"{uri}: lost {lost}"
            for device in self.devices:
                assert not device.stores[uri].edits and device.stores[uri].pending is None
        for client in self.others:
            self.sync_other(client, calm=True)
            for uri, name, field in client.CLASSES:
                entities = fresh.stores[uri].records.values()
                found = sorted(repr((fields.get("tag"), fields.get(field))) for fields in client.fields(name))
                expected = sorted(repr((fields.get("tag"), fields.get(field)))
                                  for entity, fields in entities if entity == name.lower())
                assert found == expected, f"{uri} {name}: {client.name} has {found}, the server {expected}"
        self.folder.cleanup()


def main():
    command, first, wanted = sys.argv[1:-2], int(sys.argv[-2]), sys.argv[-1]
    of_each = int(wanted.removeprefix("sessions=")) if wanted.startswith("sessions=") else None
    kinds = [f"{form} in {language}" for form in ("changes", "records") for language in ("Python", "Swift")]
    seeds, sessions, failures = itertools.count(first), [], []

    def is_last(seed):
        if of_each is None:
            return seed >= first + int(wanted)
        return all(sum(counts[kind] for counts in sessions) >= of_each for kind in kinds)

    def work():
        """World after world, with servers of their own, which they kill."""
        servers = [Server(command_in(command, "simperium", by_device)) for by_device in ((), BY_DEVICE)]
        try:
            while not failures and not is_last(seed := next(seeds)):
                log, server = [], servers[seed % 2]
                try:
                    server.make_user(f"{seed}@example.com")
                    world = World(server, SCHEMA, seed, log)
                    world.run()
                    sessions.append(world.sessions)
                except Exception as error:  # noqa: BLE001
                    failures.append(f"{traceback.format_exc()}seed {seed}: {error}\n" + "\n".join(log))
        finally:
            for server in servers:
                server.kill()

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for worker in [pool.submit(work) for _ in range(os.cpu_count())]:
            worker.result()
    for failure in failures:
        print(failure)
    if failures:
        sys.exit(1)
    counts = ", ".join(f"{number} {kind}" for kind, number in sorted(sum(sessions, collections.Counter()).items()))
    print(f"ok {len(sessions)} worlds from seed {first}; sessions: {counts}")


if __name__ == "__main__":
    main()
