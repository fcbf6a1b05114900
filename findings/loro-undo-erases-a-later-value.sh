#!/usr/bin/env bash
# Undo in loro puts the value before one's own write over what another person has written there since, or at the same
# time: a third value, older than both. So it is in maps and movable lists; in texts and lists, the other's part stays.
#
# loro 1.17.1 and, for comparison, pycrdt 0.14.13; run with CPython 3.11.
#
# Expected: undo takes back one's own change, and has nothing to take back where that is gone already.
# Seen, '0' at first, then 'mine' from the person who will undo, and 'theirs' from another, who has the larger peer id:
#
#                                       before undo    after undo       after redo
#     map, 'theirs' after 'mine'        'theirs'       '0'              'theirs'
#     map, both at the same time        'theirs'       '0'              'theirs'
#     movable list, after               ['theirs']     ['0']            ['theirs']
#     list, after                       ['theirs']     ['0', 'theirs']  ['theirs']
#     text, after                       'theirs'       '0theirs'        'theirs'
#     map, deleted after 'mine'         nothing        '0'              nothing
#     movable list, deleted after       []             []               []
#     pycrdt's map, 'theirs' after      'theirs'       'theirs'         'theirs'
#     pycrdt's map, deleted after       nothing        '0'              nothing
#
# In the second row nobody else was ever shown 'mine', and undoing it erases the value that had won. Redo brings back
# the other's value and not one's own, so it is no redo either; without it nobody has 'theirs' any more.
#
# For a sync engine: the undo of such a peer arrives as an ordinary write that is later than all, with an old value; a
# server cannot tell it from an intended one, so only the history has what it erased. An own undo should compare: take
# a value back while the value is still one's own.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check loro==1.17.1 pycrdt==0.14.13

"$folder/venv/bin/python" - <<'PYTHON'
import sys
import loro
import pycrdt


class Loro:
    def __init__(self, kind, peer):
        self.document, self.kind = loro.LoroDoc(), kind
        self.document.peer_id = peer
        self.box = getattr(self.document, f"get_{kind}")("box")

    def write(self, value):
        if self.kind == "map":
            self.box.insert("k", value) if value else self.box.delete("k")
        elif self.kind == "text":
            self.box.update(value)
        elif self.kind == "movable_list" and value and len(self.box):
            self.box.set(0, value)
        else:
            if len(self.box):
                self.box.delete(0, 1)
            if value:
                self.box.insert(0, value)
        self.document.commit()

    def receive(self, other):
        self.document.commit()
        self.document.import_(other.document.export(loro.ExportMode.Snapshot()))

    def manager(self):
        return loro.UndoManager(self.document)

    def shown(self):
        return self.document.get_deep_value()["box"]


class Yrs:
    def __init__(self, kind, peer):
        self.document = pycrdt.Doc(client_id=peer)
        self.box = self.document.get("box", type=pycrdt.Map)

    def write(self, value):
        if value:
            self.box["k"] = value
        else:
            del self.box["k"]

    def receive(self, other):
        with self.document.transaction(origin="another"):
            self.document.apply_update(other.document.get_update(self.document.get_state()))

    def manager(self):
        return pycrdt.UndoManager(scopes=[self.box], capture_timeout_millis=0)

    def shown(self):
        return self.box.to_py()


def run(library, kind, order, theirs):
    one, other = library(kind, 1), library(kind, 2)

    def exchange():
        other.receive(one)
        one.receive(other)
        assert one.shown() == other.shown()
        return one.shown()

    one.write("0")
    exchange()
    manager = one.manager()
    one.write("mine")
    if order == "after":
        exchange()
    other.write(theirs)
    seen = [exchange()]
    manager.undo()
    seen.append(exchange())
    manager.redo()
    return [*seen, exchange()]


old, new = {"k": "0"}, {"k": "theirs"}
for library, kind, order, theirs, was in (
    (Loro, "map", "after", "theirs", [new, old, new]),
    (Loro, "map", "at the same time", "theirs", [new, old, new]),
    (Loro, "movable_list", "after", "theirs", [["theirs"], ["0"], ["theirs"]]),
    (Loro, "list", "after", "theirs", [["theirs"], ["0", "theirs"], ["theirs"]]),
    (Loro, "text", "after", "theirs", ["theirs", "0theirs", "theirs"]),
    (Loro, "map", "after", None, [{}, old, {}]),
    (Loro, "movable_list", "after", None, [[], [], []]),
    (Yrs, "map", "after", "theirs", [new, new, new]),
    (Yrs, "map", "after", None, [{}, old, {}]),
):
    seen = run(library, kind, order, theirs)
    print(f"{library.__name__} {kind}, {theirs} {order}: {seen}")
    if seen != was:
        sys.exit(f"was {was}")
PYTHON
