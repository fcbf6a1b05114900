// Puts one mutant of the list merge to the test. It is compiled together with the sources of AnabranchCore, into which
// scripts/list-mutants has woven all mutants, and with those of `anabranch diff-merge`.
//
// usage: list-mutants NUMBER CASES     0 is no mutant; exits with 1 at the first case in which the ways differ

import Foundation

/// The number of the mutant whose error is made.
nonisolated(unsafe) var activeMutant = 0

activeMutant = Int(CommandLine.arguments[1]) ?? 0
let cases = UInt64(CommandLine.arguments[2]) ?? 0
for seed in 1...cases {
    let check = try CaseCheck(RandomMerge(seed: seed, sizeMax: 120))
    if let difference = check.differences.first {
        print("case \(seed) differs, \(difference.way)")
        exit(1)
    }
}
print("no difference in \(cases) cases")
