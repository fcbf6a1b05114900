#!/usr/bin/env bash
# Undo in pycrdt takes back what another person wrote, if the update came through the library's own sync messages.
#
# pycrdt 0.14.13 (the Yrs implementation of Yjs), run with CPython 3.11.
#
# Expected: an undo manager without options undoes local changes, each person their own; that is what it is for.
# Seen: it tracks every transaction without an origin, and `apply_update` is one. `handle_sync_message`, which servers
# and providers call for each message of a peer, uses `apply_update` and takes no origin. So the last thing that was
# *received* is undone, for everybody, and one's own text stays:
#
#     before          'base mine theirs '
#     undo            'base mine '
#
# With the default capture time it is worse: what arrives within half a second of one's own edit is one step with it,
# and both go. Only `with doc.transaction(origin=...)` around the applying makes it right ('base theirs ').
#
# For a sync engine: undo has to be told what is local by the call that makes a change, not by the absence of a mark
# that each transport must remember to set; a bridge that applies updates for such clients gives them an origin.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check pycrdt==0.14.13

"$folder/venv/bin/python" - <<'PYTHON'
import sys
from pycrdt import Doc, Text, UndoManager, create_update_message, handle_sync_message


def text(doc):
    return doc.get("t", type=Text)


def after_undo(receive, **options):
    """What is left of 'base mine theirs ' when the writer of 'mine ' undoes."""
    me, other = Doc(client_id=1), Doc(client_id=2)
    text(me).insert(0, "base ")
    other.apply_update(me.get_update())
    undo = UndoManager(scopes=[text(me)], **options)
    text(me).insert(5, "mine ")
    known = me.get_state()
    other.apply_update(me.get_update())
    text(other).insert(10, "theirs ")
    receive(me, other.get_update(known))
    assert str(text(me)) == "base mine theirs "
    assert undo.undo()
    return str(text(me))


def by_message(doc, update):
    handle_sync_message(create_update_message(update)[1:], doc)  # without the byte that says "sync"


def with_origin(doc, update):
    with doc.transaction(origin="network"):
        doc.apply_update(update)


one_by_one = {"capture_timeout_millis": 0}
for name, receive, options, was in (
    ("sync message", by_message, one_by_one, "base mine "),
    ("sync message, default capture time", by_message, {}, "base "),
    ("transaction with an origin", with_origin, one_by_one, "base theirs "),
):
    seen = after_undo(receive, **options)
    print(f"{name}: {seen!r}")
    if seen != was:
        sys.exit(f"{name} was {was!r}")
PYTHON
