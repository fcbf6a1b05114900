import AnabranchCore
import AnabranchTesting
import Testing

@testable import AnabranchHistory

/// A DOWNLOAD passes over a limited number of versions (`Spec/History.md`, section 7).
@Suite struct ScanLimitTests {
    @Test(arguments: StoreKind.allCases) func whatIsScannedInPiecesIsTheSame(kind: StoreKind) throws {
        let test = try TestStore(kind)
        let file = try SyncedFile.open(in: test.store)
        _ = try file.allocateIdents(for: [nil, nil], at: 1000)
        var random = SeededRandom(seed: 3)
        var versions: [ClientFileID: ClientVersion] = [2: 0, 3: 0]
        for number in 1...60 as ClosedRange<Int64> {
            let ident: ClientFileID = Int.random(in: 0..<3, using: &random) == 0 ? 3 : 2
            let version = (versions[ident] ?? 0) + 1
            versions[ident] = version
            let isEmpty = Int.random(in: 0..<4, using: &random) == 0
            let upload = Upload(
                [isEmpty ? [] : ChangesetWriter.setting(1, to: number)], from: version, base: file.version)
            #expect(try file.integrate(upload, from: ident) == nil)
        }
        for ident in [2, 3] as [ClientFileID] {
            var scan = file.downloads(for: ident)
            let whole = try scan.download(after: DownloadCursor(), byteBudget: .max)
            for versionsMax in [1, 2, 7, 59, 60, 61] {
                scan.versionsMax = versionsMax
                var pieces: [Download] = []
                while pieces.last?.progress.cursor.serverVersion != 60 {
                    let cursor = pieces.last?.progress.cursor ?? DownloadCursor()
                    let piece = try scan.download(after: cursor, byteBudget: .max)
                    let passed = piece.progress.cursor.serverVersion.rawValue - cursor.serverVersion.rawValue
                    #expect(passed > 0 && passed <= versionsMax)
                    #expect(piece.progress.latest == whole.progress.latest)
                    pieces.append(piece)
                }
                #expect(pieces.count == (59 + versionsMax) / versionsMax)
                #expect(pieces.flatMap(\.changesets) == whole.changesets)
                #expect(pieces.last?.progress == whole.progress)
                #expect(versionsMax > 1 || pieces.contains { $0.changesets.isEmpty })
                let rest = pieces.map(\.progress.downloadableBytes)
                #expect(rest == rest.sorted(by: >) && rest.last == 0)
            }
        }
    }
}
