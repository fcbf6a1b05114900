#!/usr/bin/env bash
# In a loro map, deleting a key that is not there is a write, which can erase a value that somebody else adds at the
# same time. Writing the value that is there is none, so it protects nothing.
#
# loro 1.17.1, run with CPython 3.11.
#
# Expected: both calls change nothing that anybody sees, so both are recorded or neither is. A delete of a key that one
# has never had should not be able to remove the first value that another person gives it.
# Seen, one person beside another who writes {'k': 'new'}:
#
#     this person                              operations   with peer 1 against 2    with peer 2 against 1
#     deletes 'k', which is not there          1            {'k': 'new'}             {}
#     writes 'old' over 'old'                  0            {'k': 'new'}             {'k': 'new'}
#     clears the map, which is empty           0            {'k': 'new'}             {'k': 'new'}
#
# With one more operation on any other key before it, the delete of nothing wins with the smaller peer id, too: the
# order is that of the logical clock, which counts operations of the whole document.
#
# For a sync engine: code that removes a key "in case it is there" is common, in migrations and in saving forms. Say
# for each instruction what it is on a state where it changes nothing, and say the same for all of them.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check loro==1.17.1

"$folder/venv/bin/python" - <<'PYTHON'
import sys
from loro import ExportMode, LoroDoc


def merged(ids, start, edit):
    docs = [LoroDoc() for _ in ids]
    for doc, number in zip(docs, ids):
        doc.peer_id = number
    own, other = (doc.get_map("m") for doc in docs)
    for key, value in start.items():
        own.insert(key, value)
    docs[0].commit()
    docs[1].import_(docs[0].export(ExportMode.Snapshot()))
    before = docs[0].len_ops
    edit(own)
    docs[0].commit()
    count = docs[0].len_ops - before
    other.insert("k", "new")
    docs[1].commit()
    snapshots = [doc.export(ExportMode.Snapshot()) for doc in docs]
    docs[0].import_(snapshots[1])
    docs[1].import_(snapshots[0])
    states = [doc.get_deep_value()["m"] for doc in docs]
    assert states[0] == states[1]
    states[0].pop("another key", None)
    return count, states[0]


def delete_after_another_write(own):
    own.insert("another key", 1)
    own.delete("k")


new = {"k": "new"}
for name, start, edit, was in (
    ("deletes what is not there", {}, lambda own: own.delete("k"), [(1, new), (1, {})]),
    ("the same after another write", {}, delete_after_another_write, [(2, {}), (2, {})]),
    ("writes what is there", {"k": "old"}, lambda own: own.insert("k", "old"), [(0, new), (0, new)]),
    ("clears what is empty", {}, lambda own: own.clear(), [(0, new), (0, new)]),
):
    seen = [merged(ids, start, edit) for ids in ((1, 2), (2, 1))]
    print(f"{name}: {seen}")
    if seen != was:
        sys.exit(f"{name} was {was}")
PYTHON
