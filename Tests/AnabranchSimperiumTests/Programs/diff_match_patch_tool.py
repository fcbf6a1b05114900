"""Applies deltas of others and makes its own, with a library whose deltas have the form of the wire's: lines of JSON
come in with the members `old`, `new` and `delta`, and go out with `applied` and `delta`."""

import json
import sys

from diff_match_patch import diff_match_patch

library = diff_match_patch()
library.Diff_Timeout = 0
for line in sys.stdin.buffer:
    case = json.loads(line)
    made = library.diff_main(case["old"], case["new"])
    read = library.diff_fromDelta(case["old"], case["delta"])
    print(json.dumps({"applied": library.diff_text2(read), "delta": library.diff_toDelta(made)}))
