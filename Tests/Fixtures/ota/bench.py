"""What devices cost the server, beside Realm clients with the same records, as a line of JSON: CPU of the server's
process, all of its threads. `bench.py ANABRANCH [RECORDS]`."""

import json
import os
import random
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import device as devices
import programs
from world import SCHEMA, Server, command_in

URI = "example.contacts"


def cpu(pid):
    """Seconds, of all threads, also of those that have ended: the clock of the process."""
    return time.clock_gettime(~pid << 3 | 2)


def memory(pid, name):
    """MiB."""
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(name)) / 1024


class Device(devices.Device):
    """One that is never cut, and so makes no copies of its records, which take longer than the sessions."""

    def save(self, uri):
        pass


class Bench:
    def __init__(self, program, count):
        self.server, self.program, self.count = Server(command_in([program])), program, count
        self.pid, self.figures, self.rng = self.server.process.pid, {"records": count}, random.Random(1)

    def measured(self, name, scale, body, times=1):
        """Measures a call for itself."""
        with open(f"/proc/{self.pid}/clear_refs", "w") as file:
            file.write("5")
        before, start = memory(self.pid, "VmRSS"), cpu(self.pid)
        for _ in range(times):
            result = body()
        # What the server does after its answer counts too.
        time.sleep(0.3)
        self.figures[name] = round((cpu(self.pid) - start) * scale / times, 3)
        self.figures[name.rsplit("_", 1)[0] + "_mib"] = round(memory(self.pid, "VmHWM") - before, 1)
        return result

    def device(self, name, form="changes"):
        return Device(self.server.port, "/ota", self.server.token, self.server.user, name, form, True, True,
                      SCHEMA, self.rng)

    def one_message(self, device):
        """A session in one round trip: the server is at the end with its first answer, which is not answered."""
        assert device.sync() == 1, "more than one message"

    def fill(self, device):
        store = device.stores[URI]
        for number in range(self.count):
            fields = {"tag": f"tag {number}", "name": f"person {number}", "company": f"company {number % 100}",
                      "email": f"person.{number}@example.com", "number": str(number), "image": bytes(20)}
            store.records[f"{device.name}-{number}"] = ("contact", fields)
            store.edits[f"{device.name}-{number}"] = "add"
        # Without an anchor, all would go twice: a fast sync is refused.
        if store.anchor is None:
            store.mode = "slow"
        device.save(URI)

    def run(self):
        figures, server = self.figures, self.server
        server.make_user("ann@example.com")
        one = self.device("one")
        one.sync()
        self.fill(one)
        self.measured("fast_new_ms", 1000, one.sync)
        two = self.device("two")
        self.fill(two)
        self.measured("slow_match_ms", 1000, two.sync)
        three = self.device("three", "records")
        self.measured("slow_push_ms", 1000, three.sync)
        server.make_user("bob@example.com")
        four = self.device("four")
        self.fill(four)
        self.measured("slow_new_ms", 1000, four.sync)
        four.sync()
        four.defers = True
        self.measured("idle_ms", 1000, lambda: self.one_message(four), times=200)

        def change():
            for name in self.rng.sample(sorted(four.stores[URI].records), 10):
                four.change(URI, name, {"name": f"changed {self.rng.random()}"})
            self.one_message(four)

        self.measured("changes_ms", 1000, change, times=20)
        self.realm()
        figures["slow_to_realm"] = round(figures["slow_new_ms"] / figures["realm_upload_ms"], 2)
        figures["push_to_realm"] = round(figures["slow_push_ms"] / figures["realm_download_ms"], 2)
        figures["both_to_realm"] = round(
            (figures["slow_new_ms"] + figures["slow_push_ms"])
            / (figures["realm_upload_ms"] + figures["realm_download_ms"]), 2)
        server.kill()
        print(json.dumps(figures))

    def realm(self):
        """The same records over Realm's wire: one client uploads them, another one downloads them."""
        server = self.server
        server.make_user("cat@example.com")
        self.device("cat").sync()
        with tempfile.TemporaryDirectory() as folder:
            clients = [programs.RealmClient(self.program, folder, server.port, "cat@example.com",
                                            f"ota/{server.user}", seed, self.rng) for seed in (1, 2)]
            clients[0].sync()
            lines = []
            for number in range(self.count):
                fields = {"tag": f"tag {number}", "name": f"person {number}", "company": f"company {number % 100}",
                          "email": f"person.{number}@example.com", "serial": {"int": str(number)},
                          "image": {"bin": "00" * 20}}
                key = {"uuid": "%08x-0000-4000-8000-000000000000" % number}
                lines.append(json.dumps(["Contact", key, fields]))
            clients[0].ask("write", stdin="\n".join(lines).encode())
            self.measured("realm_upload_ms", 1000, clients[0].sync)
            self.measured("realm_download_ms", 1000, clients[1].sync)


if __name__ == "__main__":
    Bench(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 10_000).run()
