#!/usr/bin/env bash
# A y-py document that receives two updates in the wrong order stands still: neither the early one nor any later one of
# that writer is ever shown, and nothing says so.
#
# y-py 0.6.2 and, for comparison, pycrdt 0.14.13, which replaced it; both are the Yrs implementation of Yjs. Run with
# CPython 3.11; y-py has wheels up to CPython 3.12.
#
# Expected: updates may come in any order and more than once; one that is early waits until the gap before it closes.
# Seen, with five updates that write one letter each, in the order 2 1 3 4 5:
#
#     y-py      ''  'A'  'A'  'A'  'A'
#     pycrdt    ''  'AB' 'ABC' 'ABCD' 'ABCDE'
#
# What was early is not looked at again when its gap closes, and all that follows waits for it. Receiving it once more,
# or the difference by state vector, heals the document.
#
# For a sync engine: a relay for such peers has to keep the order of each writer, also over reconnects and over
# several connections at once, or send a difference by state vector after every gap. "Any order" is a promise of the
# algorithm, to be tested in each library with an order that is not the writer's.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check y-py==0.6.2 pycrdt==0.14.13

"$folder/venv/bin/python" - <<'PYTHON'
import sys
import pycrdt
import y_py

writer = y_py.YDoc(client_id=1)
written = writer.get_text("t")
updates = []
subscription = writer.observe_after_transaction(lambda event: updates.append(bytes(event.get_update())))
for place, letter in enumerate("ABCDE"):
    with writer.begin_transaction() as transaction:
        written.insert(transaction, place, letter)
assert len(updates) == 5


def shown(library, order):
    if library == "y-py":
        reader = y_py.YDoc(client_id=2)
        apply, text = (lambda update: y_py.apply_update(reader, update)), reader.get_text("t")
    else:
        reader = pycrdt.Doc(client_id=2)
        apply, text = reader.apply_update, reader.get("t", type=pycrdt.Text)
    texts = []
    for number in order:
        apply(updates[number - 1])
        texts.append(str(text))
    if library == "y-py":
        apply(y_py.encode_state_as_update(writer, y_py.encode_state_vector(reader)))
        assert str(text) == "ABCDE"
    return texts


right = ["A", "AB", "ABC", "ABCD", "ABCDE"]
for library, order, was in (
    ("y-py", (1, 2, 3, 4, 5), right),
    ("y-py", (2, 1, 3, 4, 5), ["", "A", "A", "A", "A"]),
    ("y-py", (5, 4, 3, 2, 1), ["", "", "", "", "A"]),
    ("pycrdt", (2, 1, 3, 4, 5), ["", *right[1:]]),
    ("pycrdt", (5, 4, 3, 2, 1), ["", "", "", "", "ABCDE"]),
):
    seen = shown(library, order)
    print(library, order, seen)
    if seen != was:
        sys.exit(f"was {was}")
PYTHON
