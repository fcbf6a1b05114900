// Random merges in every way that there is, as `anabranch-lab fuzz merge` makes them.
//
// usage: fuzz-merge CASES     exits with 1 at the first case in which the ways differ

import AnabranchTesting
import Foundation

let cases = UInt64(CommandLine.arguments[1]) ?? 0
for seed in 1...cases {
    let comparison = try MergeComparison(RandomMerge(seed: seed, sizeMax: 120))
    if let difference = comparison.differences.first {
        print("case \(seed) differs, \(difference.way)")
        exit(1)
    }
}
print("no difference in \(cases) cases")
