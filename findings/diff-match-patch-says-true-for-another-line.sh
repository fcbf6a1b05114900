#!/usr/bin/env bash
# A patch of diff-match-patch that does not find its line edits the nearest one like it, and says that it succeeded.
#
# diff-match-patch 20241021, run with CPython 3.11.
#
# Expected: `patch_apply` looks around for the text that a patch was made for, and says False where that is gone.
# Seen: what it looks for is the edit with a few letters around it, and with the default threshold (0.5) many of them
# may differ. So a patch for a line that somebody has deleted or rewritten since lands on its neighbour, with [True]:
#
#     alarm 08:00 on -> off      the line 08:00 is gone      'alarm 07:00 on'  becomes 'alarm 07:00 off'
#     [ ] bread -> [x] bread     bread is gone               '- [ ] eggs'      becomes '- [x] eggs'
#     100 EUR -> 150 EUR         it is 200 EUR now           '200 EUR'         becomes '250 EUR'
#     100 EUR -> 150 EUR         it is 1000 EUR now          '1000 EUR'        becomes '1500 EUR'
#
# The two prices are values that nobody has ever written.
#
# For a sync engine: Simperium's clients rebase their own edits with such patches, so the result of a client must not
# be taken for what its user meant; a server transforms by position, and tells a deleted line from a moved one. Texts
# that are lists of like lines, or a number, are not for fuzzy merging.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check diff-match-patch==20241021

"$folder/venv/bin/python" - <<'PYTHON'
import sys
from diff_match_patch import diff_match_patch

ALARMS, LIST = "alarm 07:00 on\nalarm 08:00 on\n", "- [ ] milk\n- [ ] bread\n- [ ] eggs\n"
matcher = diff_match_patch()
for before, after, now, was in (
    (ALARMS, ALARMS.replace("08:00 on", "08:00 off"), "alarm 07:00 on\n", "alarm 07:00 off\n"),
    (LIST, LIST.replace("[ ] bread", "[x] bread"), "- [ ] milk\n- [ ] eggs\n", "- [ ] milk\n- [x] eggs\n"),
    ("price: 100 EUR\n", "price: 150 EUR\n", "price: 200 EUR\n", "price: 250 EUR\n"),
    ("price: 100 EUR\n", "price: 150 EUR\n", "price: 1000 EUR\n", "price: 1500 EUR\n"),
):
    patches = matcher.patch_make(before, after)
    assert matcher.patch_apply(patches, before) == (after, [True])
    seen = matcher.patch_apply(patches, now)
    print(f"{before!r} -> {after!r} on {now!r}: {seen}")
    if seen != (was, [True]):
        sys.exit(f"was {was!r} with [True]")
PYTHON
