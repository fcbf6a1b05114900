import AnabranchCore
import AnabranchHistory
import GRDB

extension FileVerification {
    /// The bootstrap generations: also checks that all are there that client files have as lineage.
    func checkGenerations() throws {
        let sql = "SELECT \(SQLiteFile.generationColumns) FROM generation WHERE file = ? ORDER BY version"
        var versions: Set<ServerVersion> = []
        try forEach(sql, named: "generation") { row in
            guard let generation = try? SQLiteFile.generation(row) else {
                return expect(false, .generation, "generations", "a record cannot be read")
            }
            let place = "generation of version \(generation.version)"
            versions.insert(generation.version)
            expect(
                Checksum(bytes: try row.bytes(4)) == start.covering(generation), .generation, place,
                "its record is not what was written")
            do {
                try check(generation, place)
            } catch let error as HistoryError {
                expect(false, .generation, place, error.reason)
            }
        }
        for clientFile in clientFiles.values where !clientFile.isExpired {
            guard case .generation(let version) = clientFile.lineage else { continue }
            expect(
                versions.contains(version), .generation, "client file \(clientFile.ident)",
                "its generation, of version \(version), is missing")
        }
    }

    private func check(_ generation: Generation, _ place: String) throws {
        let version = generation.version, segments = GenerationSegments(file: file, generation: version)
        let start = start.start(ofGeneration: version)
        var end = LogPlace(version: 0, cumulativeSize: 0, chain: start)
        for last in try segments.segmentEnds(in: VersionRange(after: 0, through: .largest)) {
            let segment = try LogSegment(try segments.segmentBlock(endingAt: last), of: start)
            for entry in try segment.content().entries {
                expect(
                    entry.version == end.version + 1
                        && entry.cumulativeSize == end.cumulativeSize &+ UInt64(entry.changeset.count), .generation,
                    place, "entry \(entry.version) follows entry \(end.version)")
                expect(
                    try entry.writtenKeys().allSatisfy { segment.head.mayWrite($0.key, in: entry.version) },
                    .generation, place, "the filter of entry \(entry.version) lacks a conflict key")
                end = LogPlace(
                    version: entry.version, cumulativeSize: entry.cumulativeSize, chain: end.chain.following(entry))
            }
            expect(segment.head.end == end, .generation, place, "entry \(last) is not what was written")
        }
        expect(
            end.version.rawValue == generation.entryCount && end.cumulativeSize == generation.bytes, .generation, place,
            "it has \(end.version) entries with \(end.cumulativeSize) bytes")
        expect(
            version <= head.version && generation.entryCount <= version.rawValue, .generation, place,
            "there are not so many versions")
    }
}
