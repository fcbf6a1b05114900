#!/usr/bin/env bash
# Replicas of a loro counter that have all of each other's changes hold different numbers, by the order in which the
# changes have arrived.
#
# loro 1.17.1, run with CPython 3.11.
#
# Expected: a counter is the example of a type that converges by itself, since adding commutes.
# Seen, three peers that add 0.1, 0.2 and 0.3, and a fourth document that imports the three:
#
#     order of arrival    value
#     1, 2, 3             0.6000000000000001
#     2, 3, 1             0.6
#
# Their version vectors are equal, so there is nothing left to exchange. The value is a double that each replica adds up for itself, and adding doubles is not associative. A snapshot hands
# on the sum of whoever made it, so what a newcomer sees depends on whom he asks. Whole numbers below 2^53 are safe.
#
# For a sync engine: "adding commutes" is true of integers. Sum amounts as integers of the smallest unit, or give a
# counter of doubles an order of its own (that of the log) and say so; and compare the states of replicas by their
# bytes in tests, where a rounded print would hide it.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check loro==1.17.1

"$folder/venv/bin/python" - <<'PYTHON'
import sys
from itertools import permutations
from loro import ExportMode, LoroDoc, VersionVector


def peer(number):
    doc = LoroDoc()
    doc.peer_id = number
    return doc


updates = []
for number, amount in ((1, 0.1), (2, 0.2), (3, 0.3)):
    doc = peer(number)
    doc.get_counter("sum").increment(amount)
    doc.commit()
    updates.append(doc.export(ExportMode.Updates(VersionVector())))

seen, first = {}, None
for order in permutations((1, 2, 3)):
    doc = peer(9)
    for number in order:
        doc.import_(updates[number - 1])
    first = first or doc
    assert doc.state_vv == first.state_vv, "they have the same changes"
    newcomer = peer(10)
    newcomer.import_(doc.export(ExportMode.Snapshot()))
    assert newcomer.get_counter("sum").value == doc.get_counter("sum").value
    seen[order] = doc.get_counter("sum").value
    print(order, seen[order])

if seen[(1, 2, 3)] != 0.6000000000000001 or seen[(2, 3, 1)] != 0.6:
    sys.exit("the sums were 0.6000000000000001 for 1, 2, 3 and 0.6 for 2, 3, 1")
PYTHON
