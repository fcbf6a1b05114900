#!/usr/bin/env bash
# Two people make overlapping parts of a text bold in pycrdt; a part that one of them made bold, and nobody unmade,
# is not bold afterwards.
#
# pycrdt 0.14.13 (the Yrs implementation of Yjs) and, for comparison, loro 1.17.1, run with CPython 3.11.
#
# Expected: of "one two six" one person marks "one two", the other "two six". Both only add the same mark, so all three
# words are bold. With two colours the middle word is open to debate; the last word, marked by one person, is not.
# Seen: the same on both replicas and with either order of the client ids:
#
#     pycrdt, bold    [('one ', {'bold': True}), ('two', {'bold': True}), (' six', None)]
#     pycrdt, colour  [('one ', {'color': 'red'}), ('two', {'color': 'blue'}), (' six', None)]
#     loro, bold      [('one two six', {'bold': True})]
#     loro, colour    [('one ', {'color': 'red'}), ('two six', {'color': 'blue'})]
#
# A mark is a pair of positions there, and the one that ends "one two" says "from here on: not bold". It was meant for
# what its author saw; merged, it also ends the mark of the other person.
#
# For a sync engine: an end that holds the *value before* is an absolute write to all that follows. Ranges have to be
# kept as ranges with an owner. And replicas that agree prove nothing: here they agree on losing what was meant.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check pycrdt==0.14.13 loro==1.17.1

"$folder/venv/bin/python" - <<'PYTHON'
import sys
from loro import ExpandType, ExportMode, LoroDoc, StyleConfigMap
from pycrdt import Doc, Text

WORDS = "one two six"


def pycrdt(key, first, second, ids):
    docs = [Doc(client_id=number) for number in ids]
    texts = [doc.get("t", type=Text) for doc in docs]
    texts[0].insert(0, WORDS)
    docs[1].apply_update(docs[0].get_update())
    texts[0].format(0, 7, {key: first})
    texts[1].format(4, 11, {key: second})
    updates = [doc.get_update() for doc in docs]
    docs[0].apply_update(updates[1])
    docs[1].apply_update(updates[0])
    assert texts[0].diff() == texts[1].diff()
    return texts[0].diff()


def loro(key, first, second, ids):
    docs = [LoroDoc() for _ in ids]
    for doc, number in zip(docs, ids):
        doc.peer_id = number
        styles = StyleConfigMap()
        styles.insert(key, ExpandType.After)
        doc.config_text_style(styles)
    texts = [doc.get_text("t") for doc in docs]
    texts[0].insert(0, WORDS)
    docs[0].commit()
    docs[1].import_(docs[0].export(ExportMode.Snapshot()))
    texts[0].mark(0, 7, key, first)
    texts[1].mark(4, 11, key, second)
    for doc in docs:
        doc.commit()
    docs[0].import_(docs[1].export(ExportMode.Snapshot()))
    return [(part.insert, part.attributes) for part in texts[0].to_delta()]


marks = ("bold", True, True), ("color", "red", "blue")
bold, red, blue = {"bold": True}, {"color": "red"}, {"color": "blue"}
for library, ids, was in (
    (pycrdt, (1, 2), ([("one ", bold), ("two", bold), (" six", None)], [("one ", red), ("two", blue), (" six", None)])),
    (pycrdt, (2, 1), ([("one ", bold), ("two", bold), (" six", None)], [("one ", red), ("two", blue), (" six", None)])),
    (loro, (1, 2), ([(WORDS, bold)], [("one ", red), ("two six", blue)])),
):
    seen = tuple(library(*mark, ids) for mark in marks)
    print(library.__name__, ids, *seen)
    if seen != was:
        sys.exit(f"was {was}")
PYTHON
