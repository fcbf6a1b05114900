"""An app of flexible sync whose roles give three users three views of the same objects, and an app of partitions with a
file of rules: a server, its users, and clients of theirs that are real replicas.
"""

import json
import os
import subprocess

from world import Server

PASSWORD = "correct horse battery"
SCHEMA = [
    {"class": "Task", "kind": "top-level", "key": {"name": "_id", "type": "int", "nullable": False}, "properties": [
        {"name": "title", "type": "string", "nullable": False}, {"name": "team", "type": "string", "nullable": True},
        {"name": "public", "type": "bool", "nullable": False}, {"name": "after", "type": "link", "target": "Task", "nullable": True}]},
    {"class": "Secret", "kind": "top-level", "key": {"name": "_id", "type": "int", "nullable": False}, "properties": [
        {"name": "text", "type": "string", "nullable": False}]}]
EVERYTHING = {"document_filters": {"read": True, "write": True}, "read": True, "write": True, "insert": True, "delete": True}
ADMIN = {"name": "admin", "apply_when": {"%%user.custom_data.role": "admin"}, **EVERYTHING}
ROLES = {
    "Task": [ADMIN, {
        "name": "member", "apply_when": {"%%user.custom_data.team": {"%exists": True}}, **EVERYTHING,
        "document_filters": {"read": {"$or": [{"team": "%%user.custom_data.team"}, {"public": True}]}, "write": {"team": "%%user.custom_data.team"}}},
        {"name": "guest", "apply_when": {}, **EVERYTHING, "document_filters": {"read": {"public": True}, "write": False}}],
    "Secret": [ADMIN],
}
RULES = """rules:
- {path: '"square"', right: read}
- {path: '"garden of ${user}"', right: write}
- {path: '"hall"', app: town, data: {role: mayor}, right: write}
"""
CONFIGURATION = """apps:
  team:
    providers: [local-userpass]
    sync: flexible
    app-config: exported
  town:
    providers: [local-userpass]
"""


class Roles:
    """The server with both apps, and its users by their names."""

    def __init__(self, program, folder):
        exported = folder / "exported"
        for name, roles in ROLES.items():
            place = exported / "data_sources" / "mongodb-atlas" / "app" / name
            place.mkdir(parents=True)
            (place / "rules.json").write_text(json.dumps({"roles": roles}))
        (exported / "sync").mkdir()
        (exported / "sync" / "config.json").write_text(json.dumps({"type": "flexible", "state": "enabled", "development_mode_enabled": True}))
        (folder / "rules.yaml").write_text(RULES)
        (folder / "anabranch.yaml").write_text(CONFIGURATION)
        self.folder = folder
        self.server = Server(program, folder, options=["--config", str(folder / "anabranch.yaml"), "--rules", str(folder / "rules.yaml")])
        self.users = {}

    def run(self, *words, text=""):
        environment = {**os.environ, "ANABRANCH_PASSWORD": PASSWORD}
        return subprocess.run([self.server.program, *words], input=text, text=True, capture_output=True, env=environment)

    def done(self, *words, text=""):
        run = self.run(*words, text=text)
        assert run.returncode == 0, (words, run.stderr)
        return run.stdout

    def add_user(self, app, name, **data):
        (self.folder / "password").write_text(PASSWORD + "\n")
        added = self.done("admin", "users", "add", "--data", str(self.server.data), "--app", app, "--email", f"{name}@example.com",
                          "--password-file", str(self.folder / "password"), "--json-object", json.dumps(data), "--json")
        self.users[app, name] = json.loads(added)["user"]

    def set_data(self, app, name, **data):
        self.done("admin", "users", "set-data", "--data", str(self.server.data), self.users[app, name], "--json-object", json.dumps(data))

    def client(self, command, name, device, path, *words, text="", runs=None):
        return (runs or self.done)("client", command, "--data", str(self.folder / device), "--path", path, "--url", self.server.url, "--timeout", "300",
                                   "--email", f"{name}@example.com", *words, text=text)

    def write(self, name, device, path, lines):
        self.client("write", name, device, path, text="".join(json.dumps(line) + "\n" for line in lines))

    def downloaded(self, name, device, path, class_name):
        """The keys and values of the objects of a class that a device has when it has everything."""
        lines = [json.loads(line) for line in self.client("read", name, device, path, "--export").splitlines()]
        return {json.dumps(line[1]): line[2] for line in lines if isinstance(line, list) and line[0] == class_name}

    def fill(self):
        for name, data in [("ada", {"role": "admin"}), ("mia", {"team": "red"}), ("gus", {})]:
            self.add_user("team", name, **data)
        self.add_user("town", "tom", role="mayor")
        self.add_user("town", "zoe")
        tasks = [["Task", {"int": str(number)}, {
            "title": f"task {number}", "team": ["red", "blue", "green"][number % 3], "public": number % 4 == 0,
            "after": {"link": ["Task", {"int": str(number - 1)}]} if number > 1 else None}] for number in range(1, 61)]
        self.write("ada", "desk", "team", SCHEMA)
        for name in ["Task", "Secret"]:
            self.client("subscribe", "ada", "desk", "team", name)
        self.write("ada", "desk", "team", [*tasks, ["Secret", {"int": "1"}, {"text": "the treasure"}]])
        for name, device, predicate in [("mia", "phone", "TRUEPREDICATE"), ("mia", "tablet", "public == true"), ("gus", "watch", "TRUEPREDICATE")]:
            self.client("subscribe", name, device, "team", "Task", predicate)
        self.client("subscribe", "mia", "phone", "team", "Secret")
        town = [SCHEMA[1], ["Secret", {"int": "7"}, {"text": "of the town"}]]
        self.write("tom", "tom", 'town/"hall"', town)
