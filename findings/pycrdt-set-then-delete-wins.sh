#!/usr/bin/env bash
# In a pycrdt map a delete never wins against a write that it does not know. A write *and* a delete do, for every
# second pair of clients.
#
# pycrdt 0.14.13 (the Yrs implementation of Yjs), run with CPython 3.11.
#
# Expected: one rule for "deleted here, written there". Since a lone delete loses to the other person's write with any
# client ids, deleting what one has just written oneself should lose as well: the same key, the same last word.
# Seen, with "old" known to both and the other person writing "new":
#
#     this person                 with the smaller client id      with the larger one
#     deletes the key             {'k': 'new'}                    {'k': 'new'}
#     writes, then deletes        {'k': 'new'}                    {}
#
# A delete only marks the entry that it saw. A write made before puts an entry of one's own into the order; if that is
# the last one, marking it deleted means that the key has no value, and the other person's entry before it is hidden.
# Client ids are random, so the same edits keep or lose a value from one day to the next.
#
# For a sync engine: a form that saves a default and clears it again is not the same as one that clears, and tests
# that fix the ids see one half. What has to hold: leaving out an earlier write of the same author to the same place
# must not change who wins. It does where the time belongs to the delete itself, as in last-update-wins.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check pycrdt==0.14.13

"$folder/venv/bin/python" - <<'PYTHON'
import sys
from pycrdt import Doc, Map


def merged(own_id, other_id, writes_before):
    own, other = Doc(client_id=own_id), Doc(client_id=other_id)
    mine, theirs = own.get("m", type=Map), other.get("m", type=Map)
    mine["k"] = "old"
    other.apply_update(own.get_update())
    if writes_before:
        mine["k"] = "mine"
    del mine["k"]
    theirs["k"] = "new"
    updates = own.get_update(), other.get_update()
    own.apply_update(updates[1])
    other.apply_update(updates[0])
    assert mine.to_py() == theirs.to_py()
    return mine.to_py()


for writes_before, ids, was in (
    (False, (1, 2), {"k": "new"}),
    (False, (2, 1), {"k": "new"}),
    (True, (1, 2), {"k": "new"}),
    (True, (2, 1), {}),
):
    seen = merged(*ids, writes_before)
    print("writes, then deletes" if writes_before else "deletes", "with client ids", ids, seen)
    if seen != was:
        sys.exit(f"was {was}")
PYTHON
