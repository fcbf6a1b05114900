import AnabranchCore
import AnabranchTesting
import Testing

@testable import AnabranchHistory

/// The memory of merges into flexible files (`Spec/FlexibleSync.md`, section 3.3).
@Suite struct FlexibleMergeMemoryTests {
    /// Of merges under way that occupy too much memory together the largest begins again, but never the first.
    @Test(arguments: StoreKind.allCases) func theFirstGoesOn(kind: StoreKind) throws {
        var fixtures = [try FlexibleFixture(kind)]
        try fixtures[0].create(1)
        try fixtures[0].integrate()
        try fixtures[0].upload()
        for _ in 0..<3 { fixtures.append(try fixtures[0].joined()) }
        let file = fixtures[0].file
        file.mergeBytesMax = 0
        // The others have missed 40 changes of an object that each of them changes 40 times.
        for index in fixtures.indices {
            for number in 0..<40 as Range<UInt64> {
                try fixtures[index].client.write(at: ChangesetTime(rawValue: 100 + number)) { transaction in
                    try transaction.object("Note", key: .int(1))?.set("text", to: .string([UInt8(0x30 + number)]))
                }
            }
        }
        try fixtures[0].upload()
        var bytes: Set<Int> = []
        for index in 1...3 {
            while let upload = fixtures[index].client.nextUpload(.max),
                let rest = try fixtures[index].session.progress.accept(upload)
            {
                file.enqueue(rest, from: fixtures[index].client.ident, at: 1)
            }
            while file.hasNewUploads { #expect(try file.integrateNew(until: .smallest).isEmpty) }
            bytes.insert(file.mergeBytes)
        }
        #expect(bytes.count == 1 && !bytes.contains(0) && file.waitingClientCount == 3)
        while file.waitingClientCount > 0 {
            if let outcome = try file.integrateLong(until: .smallest) { #expect(outcome.refusal == nil) }
            for outcome in try file.integrateNew(until: .smallest) { #expect(outcome.refusal == nil) }
        }
        #expect(file.mergeBytes == 0)
        for index in fixtures.indices {
            try fixtures[index].integrate()
            let text = try fixtures[index].client.state.read { try $0.object("Note", key: .int(1))?["text"] }
            #expect(text == .string([0x30 + 39]))
            try fixtures[index].upload()
        }
        try fixtures[0].test.verify()
    }
}
