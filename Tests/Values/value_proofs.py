"""Runs the parts that are asked for; scripts/value-proofs says how."""
import argparse
import sys
import time

from document_proofs import prove_documents, prove_inference
from partition_proofs import prove_bytes, prove_partitions, prove_rules
from report import Failure

PARTS = {"partitions": prove_partitions, "rules": prove_rules, "bytes": prove_bytes, "documents": prove_documents,
         "inference": prove_inference}
# How many of the cases a part has that is not named: some say little, others take long.
SHARES = {"rules": 0.1, "documents": 10, "inference": 0.1}


def main():
    parser = argparse.ArgumentParser(prog="scripts/value-proofs")
    parser.add_argument("--serve", required=True, metavar="COMMAND", help="the command `anabranch`")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    arguments = parser.parse_args()
    failures = 0
    for part in arguments.parts or PARTS:
        if part not in PARTS:
            parser.error(f"there is no part {part}; the parts are {', '.join(PARTS)}")
        start = time.monotonic()
        count = arguments.count if arguments.parts else max(1, int(arguments.count * SHARES.get(part, 1)))
        try:
            outcome = "ok", PARTS[part](arguments.serve, arguments.seed, count)
        except Failure as failure:
            failures += 1
            outcome = "FAILED", (f"{failure}\n    scripts/value-proofs --serve {arguments.serve} --seed {failure.seed} "
                                 f"--count {1 if failure.seed != arguments.seed else count} {part}")
        print(f"{outcome[0]:6} {part:10} {time.monotonic() - start:6.0f} s  {outcome[1]}", flush=True)
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
