// Puts one mutant of the list merge to the test: random merges, in every way that there is.
//
// usage: list-mutants NUMBER CASES     0 is no mutant; exits with 1 at the first case in which the ways differ

import AnabranchCore
import AnabranchTesting
import Foundation

activeMutant = Int(CommandLine.arguments[1]) ?? 0
let cases = UInt64(CommandLine.arguments[2]) ?? 0
for seed in 1...cases {
    let comparison = try MergeComparison(RandomMerge(seed: seed, sizeMax: 120))
    if let difference = comparison.differences.first {
        print("case \(seed) differs, \(difference.way)")
        exit(1)
    }
}
print("no difference in \(cases) cases")
