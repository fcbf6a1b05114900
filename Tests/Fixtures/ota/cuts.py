"""A session of a device that is cut after each message, in both directions: the next one leads to what an undisturbed
one does, without a slow sync. `cuts.py SERVER`."""

import os
import random
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import device as devices
import programs
from world import BY_DEVICE, FILES, Server, SCHEMA, command_in

KINDS = [("records", False, True), ("changes", True, True), ("changes", False, False), ("records", True, False)]
URI = "example.contacts"
FOLDER = tempfile.TemporaryDirectory()


class Case:
    """Two devices with records; the second is the one whose session is cut."""

    def __init__(self, server, name, kind, mode, program=None):
        server.make_user(f"{name}@example.com")
        self.one = self.device(server, "one", ("changes", True, True), name)
        self.two = self.device(server, "two", kind, name, program)
        self.two.info = {"max_items": 3}
        one, two = self.one, self.two
        groups = [one.add(URI, "group", {"tag": f"g{n}", "name": f"group {n}"}) for n in range(3)]
        people = [one.add(URI, "contact", {"tag": f"p{n}", "name": f"person {n}", "groups": [groups[n % 3]]})
                  for n in range(6)]
        one.sync()
        if mode == "slow":
            two.add(URI, "contact", {"tag": "mine", "name": "of two"})
            return
        two.sync()
        for number, person in enumerate(people):
            one.change(URI, person, {"email": f"{number}@example.com"})
        one.change(URI, groups[0], {"parent": [groups[1]]})
        one.delete(URI, people[5])
        one.add(URI, "contact", {"tag": "new", "name": "new", "groups": groups})
        one.sync()
        mine = {fields["tag"]: name for name, (_, fields) in two.stores[URI].records.items()}
        two.change(URI, mine["p0"], {"name": "changed", "groups": [mine["g0"], mine["g2"]]})
        two.change(URI, mine["p5"], {"name": "changed in vain"})
        two.delete(URI, mine["p1"])
        two.add(URI, "contact", {"tag": "mine", "name": "of two", "groups": [mine["g1"]]})

    @staticmethod
    def device(server, name, kind, seed, program=None):
        arguments = (server.port, "/ota", server.token, server.user, f"{name}-{seed}", *kind, SCHEMA,
                     random.Random(seed))
        if program is None:
            return devices.Device(*arguments)
        return programs.ProgramDevice(program, FOLDER.name, FILES, f"{seed}@example.com", *arguments)

    def contents(self):
        for device in (self.one, self.two, self.one, self.two):
            device.sync()
        found = [{uri: device.content(uri) for uri in SCHEMA} for device in (self.one, self.two)]
        assert found[0] == found[1], found
        return found[0]


def run(by_device):
    """Cuts sessions on a server where devices commit these dataclasses; returns how many."""
    server = Server(command_in(sys.argv[1:], by_device=by_device))
    count = 0
    try:
        program = server.command[0] if server.command[1] == "serve" else None
        kinds = [(kind, None) for kind in KINDS[:2 if by_device else 4]]
        if program is not None and os.environ.get("ANABRANCH_CUTS") == "all":
            kinds += [(kind, program) for kind in KINDS]
        for number, (kind, program) in enumerate(kinds):
            for mode in ("fast", "slow")[:1 if number in (2, 3) or by_device else 2]:
                case = Case(server, f"whole-{number}-{mode}", kind, mode, program)
                messages = case.two.sync()
                expected = case.contents()
                for cut in range(1, 2 * messages + 1):
                    case = Case(server, f"cut-{number}-{mode}-{cut}", kind, mode, program)
                    case.two.log = []
                    try:
                        case.two.sync(cut_at=cut)
                    except devices.Cut:
                        pass
                    else:
                        assert False, "not cut"
                    first = len(case.two.log)
                    found = case.contents()
                    assert found == expected, (kind, mode, cut, found, expected)
                    asked = [entry for entry in case.two.log[first:] if entry[1] == "slow"]
                    assert mode == "slow" or not asked, (kind, cut, case.two.log)
                    count += 1
    finally:
        server.kill()
    return count


print(f"ok {run(()) + run(BY_DEVICE)} cuts")
