#!/usr/bin/env bash
# In a loro movable list, an element that one person deletes and another one moves stays, whoever was first; one that
# the other rewrites goes. In loro's tree, the later of the two decides.
#
# loro 1.17.1, run with CPython 3.11.
#
# Expected: deleting against moving is decided in one way by one library, and a list that somebody clears is empty but
# for what others add.
# Seen, ['a', 'b', 'c'] and two persons who do not see each other; the first four whatever the peer ids and clocks:
#
#     one deletes 'b', the other moves it to the front          ['b', 'a', 'c']
#     one deletes 'b', the other writes 'B' over it             ['a', 'c']
#     one deletes 'b', the other writes 'B' and moves it back   ['a', 'c', 'B']
#     one clears the list, the other moves 'c' to the front     ['c']
#     a tree's node, deleted by one and moved by the other      there or not: the later one by logical clock
#
# Of the third, the new text is kept only since the element was moved too: dragging a row that one has edited decides
# whether the edit survives.
#
# For a sync engine: say for each pair of instructions on one element which one wins, in a table, and test it in both
# orders. Here a move is a delete and an insert of the place alone; Realm's rule is that an erased element stays erased.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check loro==1.17.1

"$folder/venv/bin/python" - <<'PYTHON'
import sys
from loro import ExportMode, LoroDoc, VersionVector


def merged(start, one, other, ids, ahead):
    """What both have in the end. The clock of the first is ahead by so many operations."""
    docs = [LoroDoc() for _ in ids]
    for doc, number in zip(docs, ids):
        doc.peer_id = number
    start(docs[0])
    docs[0].commit()
    docs[1].import_(docs[0].export(ExportMode.Snapshot()))
    for number in range(ahead):
        docs[0].get_map("elsewhere").insert("n", number)
    for doc, edit in zip(docs, (one, other)):
        edit(doc)
        doc.commit()
    updates = [doc.export(ExportMode.Updates(VersionVector())) for doc in docs]
    docs[0].import_(updates[1])
    docs[1].import_(updates[0])
    states = [doc.get_deep_value() for doc in docs]
    assert states[0] == states[1]
    return states[0]


def letters(doc):
    for letter in "abc":
        doc.get_movable_list("l").push(letter)


def rows(doc):
    return doc.get_movable_list("l")


def rewrite_and_move(doc):
    rows(doc).set(1, "B")
    rows(doc).mov(1, 2)


meetings = [(ids, ahead) for ids in ((1, 2), (2, 1)) for ahead in (0, 5)]
for name, one, other, was in (
    ("deleted, moved", lambda doc: rows(doc).delete(1, 1), lambda doc: rows(doc).mov(1, 0), ["b", "a", "c"]),
    ("deleted, rewritten", lambda doc: rows(doc).delete(1, 1), lambda doc: rows(doc).set(1, "B"), ["a", "c"]),
    ("deleted, both", lambda doc: rows(doc).delete(1, 1), rewrite_and_move, ["a", "c", "B"]),
    ("cleared, moved", lambda doc: rows(doc).clear(), lambda doc: rows(doc).mov(2, 0), ["c"]),
):
    seen = [merged(letters, one, other, *meeting)["l"] for meeting in meetings]
    print(f"{name}: {seen}")
    if seen != [was] * len(meetings):
        sys.exit(f"{name} was {was}")

nodes = {}


def family(doc):
    tree = doc.get_tree("t")
    nodes["old"], nodes["new"] = tree.create(), tree.create()
    nodes["child"] = tree.create(nodes["old"])


def children(state):
    return sum(len(node["children"]) for node in state["t"])


seen = [
    children(merged(
        family, lambda doc: doc.get_tree("t").delete(nodes["child"]),
        lambda doc: doc.get_tree("t").mov(nodes["child"], nodes["new"]), (1, 2), ahead))
    for ahead in (0, 5)
]
print(f"nodes that are left in the tree, the clocks equal and the deleting one ahead: {seen}")
if seen != [1, 0]:
    sys.exit("they were [1, 0]")
PYTHON
