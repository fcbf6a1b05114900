// Puts one mutant of the merge rules to the test: all pairs of instructions in small states, and the recorded merges of
// the reference.
//
// usage: rule-mutants NUMBER MERGES.jsonl     0 is no mutant; prints which checks fail, and exits with 1 if one does

import AnabranchCore
import AnabranchTesting
import Foundation

/// How many recorded merges come out otherwise than in the reference.
func wrongMerges(in path: String) throws -> Int {
    var count = 0
    try JSONLines.forEach(in: path, as: MergeCase.self) { _, record, _ in
        do {
            var input = try MergeInput(record)
            try input.arena.merge(local: input.local, incoming: input.incoming)
            let outputs = input.outputs(of: input.local) + input.outputs(of: input.incoming)
            if outputs != (record.local_after ?? []) + (record.incoming_after ?? []) { count += 1 }
        } catch is TransformError {
            if record.error == nil { count += 1 }
        }
    }
    return count
}

activeMutant = Int(CommandLine.arguments[1]) ?? 0
let report = try await ExhaustiveStates.check(jobs: 2)
let merges = try wrongMerges(in: CommandLine.arguments[2])
print("\(report.failures) pairs diverge, \(merges) recorded merges differ")
exit(report.failures + merges == 0 ? 0 : 1)
