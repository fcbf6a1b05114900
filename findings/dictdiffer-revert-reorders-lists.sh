#!/usr/bin/env bash
# Reverting a difference of dictdiffer puts the elements that it removed from a list back in another order, if they
# were three or more.
#
# dictdiffer 0.10.0, run with CPython 3.11.
#
# Expected: `patch` goes from the first value to the second, and `revert` from the second to the first.
# Seen, `patch` right each time:
#
#     difference of                          revert gives
#     ['a', 'b'] and []                      ['a', 'b']
#     ['a', 'b', 'c'] and []                 ['a', 'c', 'b']
#     ['a', 'b', 'c', 'd'] and []            ['a', 'd', 'b', 'c']
#     ['a', 'b', 'c', 'd'] and ['a']         ['a', 'b', 'd', 'c']
#     ['a', 'b', 'c', 'd'] and ['a', 'b']    ['a', 'b', 'c', 'd']
#     [] and ['a', 'b', 'c'], and back       []
#
# The removals stand in the difference from the last place to the first, as they must for removing; reverting makes
# each an insertion and keeps their order, so an element goes to a place that the list does not have yet, and is put at
# its end. With two the last one is inserted into the list as it was, at its end, and the other before it: that comes
# out right by luck, and so does each test with short lists. No element is lost and no error raised: a comparison of
# lengths or of sets sees nothing. A list that went away as a whole, with its key, comes back as it was.
#
# For a sync engine: the inverse of a list of instructions is the inverse of each, in the opposite order. Test undo on
# random lists in which several neighbours were removed, against the value before and not against the number of
# elements; and a history that such a library keeps is to be walked forward from a snapshot, not backward.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check dictdiffer==0.10.0

"$folder/venv/bin/python" - <<'PYTHON'
import sys
from dictdiffer import diff, patch, revert

for before, after, was in (
    (["a", "b"], [], ["a", "b"]),
    (["a", "b", "c"], [], ["a", "c", "b"]),
    (["a", "b", "c", "d"], [], ["a", "d", "b", "c"]),
    (["a", "b", "c", "d"], ["a"], ["a", "b", "d", "c"]),
    (["a", "b", "c", "d"], ["a", "b"], ["a", "b", "c", "d"]),
    ([], ["a", "b", "c"], []),
    ({"tags": ["a", "b", "c"]}, {"tags": []}, {"tags": ["a", "c", "b"]}),
    ({"tags": ["a", "b", "c"]}, {}, {"tags": ["a", "b", "c"]}),
):
    changes = list(diff(before, after))
    assert patch(changes, before) == after
    seen = revert(changes, after)
    print(f"{before} -> {after}: {changes}, reverted {seen}")
    if seen != was:
        sys.exit(f"was {was}")
PYTHON
