import AnabranchTesting
import Testing

@testable import AnabranchCore

/// The scenarios of the reference: what its server logged gives the state that it ended with, and what its clients
/// recorded is recorded again.
@Suite struct StateVectorTests {
    @Test func theLogGivesTheReferencesState() throws {
        for vector in VectorFiles.convergedScenarios {
            var graph = ObjectGraph()
            for entry in vector.server_log { try graph.apply(Hex.bytes(entry.hex)) }
            #expect(try graph.canonicalJSON() == vector.state, "\(vector.name)")
        }
    }

    /// Nothing stays in memory between two entries.
    @Test func theLogGivesTheReferencesStateThroughRows() throws {
        for vector in VectorFiles.convergedScenarios {
            var rows = MemoryRows()
            for entry in vector.server_log {
                var graph = try ObjectGraph(rows: rows)
                let changes = try graph.apply(Hex.bytes(entry.hex))
                rows.write(try graph.rowWrites(of: changes))
            }
            #expect(try ObjectGraph(rows: rows).canonicalJSON() == vector.state, "\(vector.name)")
        }
    }

    @Test func theDigestFollowsTheLog() throws {
        for vector in VectorFiles.convergedScenarios {
            var graph = ObjectGraph()
            var digest = StateDigest()
            for entry in vector.server_log {
                let before = graph
                let changes = try graph.apply(Hex.bytes(entry.hex))
                try digest.update(from: before, to: graph, changes: changes)
                #expect(digest == (try StateDigest(of: graph)), "\(vector.name), version \(entry.version)")
            }
        }
    }

    @Test func whatClientsRecordedIsRecordedAgain() throws {
        var count = 0
        for vector in VectorFiles.convergedScenarios {
            var graph = ObjectGraph()
            for version in 0...vector.server_log.count {
                if version > 0 { try graph.apply(Hex.bytes(vector.server_log[version - 1].hex)) }
                for upload in vector.recordings[version] ?? [] {
                    let expected = Hex.bytes(upload.hex)
                    var copy = graph
                    let written = try copy.write(as: upload.client) { try Replay(expected, in: $0).run() }
                    #expect(written.changeset == expected, "\(vector.name), client \(upload.client)")
                    count += 1
                }
            }
        }
        #expect(count > 100)
    }
}
