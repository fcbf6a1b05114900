import AnabranchCore
import AnabranchSQLite
import AnabranchTesting
import Foundation
import Testing

@testable import AnabranchHistory

/// A page of the database that is gone: the verification tells of everything else all the same.
@Suite struct DamagedPageTests {
    @Test func theVerificationGoesOnBehindAPageThatCannotBeRead() throws {
        let directory = try TemporaryDirectory()
        let store = try SQLiteStore(oneShardIn: directory.path)
        for path in ["/a", "/b"] {
            let file = try SyncedFile.open(path, in: store)
            _ = try file.allocateIdents(for: ["ann"], at: 1000)
            for number in 1...100 as ClosedRange<UInt64> {
                let changeset = ChangesetWriter.setting(Int64(number), to: Int64(number))
                try file.enqueue(Upload([changeset], from: ClientVersion(number)), from: 2)
                #expect(try file.integrate(at: 1000).outcomes.allSatisfy { $0.refusal == nil })
            }
        }
        try store.close()
        let original = try Data(contentsOf: URL(fileURLWithPath: directory.path + "/shard-00.sqlite"))
        let pageBytes = 4096
        var oneIsGood = 0, logsThatEnd = 0
        // Without the page of the schema there is no store.
        for page in 1..<(original.count / pageBytes) {
            var bytes = original
            for place in page * pageBytes..<(page + 1) * pageBytes { bytes[place] = 0xff }
            let copy = try TemporaryDirectory(copyingManifestOf: directory.path)
            try bytes.write(to: URL(fileURLWithPath: copy.path + "/shard-00.sqlite"))
            // Nor without that of its marks.
            guard let verification = try? StoreVerification(directory: copy.path) else { continue }
            _ = try verification.checkDatabase()
            var files: [VerifiedFile] = []
            do {
                try verification.checkFiles { files.append($0) }
            } catch {
                // The list of the files itself.
                #expect(error.code == .storeDamaged && files.isEmpty, "page \(page + 1)")
                continue
            }
            #expect(files.count == 2, "page \(page + 1)")
            if files.count(where: \.damages.isEmpty) == 1 { oneIsGood += 1 }
            // A table of client files that ends early is no reason to doubt the log.
            #expect(!files.flatMap(\.damages).contains { $0.finding.hasPrefix("there is no client file") })
            for file in files where !file.damages.contains(where: { $0.place.contains("log") || $0.kind == .value }) {
                #expect(file.goodVersion.rawValue == file.entryCount, "page \(page + 1)")
            }
            let places = files.flatMap(\.damages).filter { $0.kind == .database }.map(\.place)
            if places.contains(where: { $0.hasPrefix("log after version ") }) { logsThatEnd += 1 }
        }
        #expect(oneIsGood > 0)
        #expect(logsThatEnd > 0)
    }
}
