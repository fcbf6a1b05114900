import AnabranchTesting
import Synchronization
import Testing

@testable import AnabranchCore

/// Changesets that make some objects what they are in a state.
@Suite struct ObjectChangesetsTests {
    /// Rows that record how many are asked for at a time.
    private struct RecordingRows: ObjectRows {
        final class Counts: Sendable {
            let values = Mutex<[Int]>([])
        }

        let stored: MemoryRows
        let counts = Counts()

        func row(at address: RowAddress) throws -> [UInt8]? { try stored.row(at: address) }

        func rows(of classID: ClassID, _ keys: [[UInt8]]) throws -> [[UInt8]?] {
            counts.values.withLock { $0.append(keys.count) }
            return keys.map { stored.rows[RowAddress(classID: classID, key: $0)] }
        }

        func objects(of classID: ClassID, after key: [UInt8]?, limit: Int) throws -> [(key: [UInt8], row: [UInt8])] {
            try stored.objects(of: classID, after: key, limit: limit)
        }

        func takeCounts() -> [Int] {
            counts.values.withLock { counts in
                defer { counts = [] }
                return counts
            }
        }
    }

    /// Some objects are in memory, and some do not exist.
    @Test func objectsInOrderAreReadTogether() throws {
        func update(_ key: Int64, _ value: Int64) -> Step {
            .update(FieldPath(object: ObjectName(key: .int(key)), field: "i"), .int(value))
        }
        let schema: [Step] = [.addTable("A"), .addColumn("A", "i")]
        let objects = (0..<200 as Range<Int64>).filter { !$0.isMultiple(of: 10) }
            .flatMap { key in [Step.createObject(ObjectName(key: .int(key))), update(key, key)] }
        let changes = [schema + objects, [update(5, 500), update(101, 700)]].map { changeset($0) }
        var rows = MemoryRows(), memory = ObjectGraph(), written = try ObjectGraph(rows: rows)
        rows.write(try written.rowWrites(of: try written.apply(changes[0])))
        for change in changes { try memory.apply(change) }
        let recording = RecordingRows(stored: rows)
        var graph = try ObjectGraph(rows: recording)
        try graph.apply(changes[1])
        rows.readCount = 0
        _ = recording.takeCounts()

        let number = try #require(memory.classID(of: Array("A".utf8)))
        let all = (0..<200 as Range<Int64>).map { ObjectReference(classID: number, key: .int($0)) }
        for (objects, counts) in [(all, [63, 63, 64, 8]), (all.reversed(), Array(repeating: 1, count: 198))] {
            var made = ObjectChangesets(of: objects, in: graph, endingAt: 500)
            var wanted = ObjectChangesets(of: objects, in: memory, endingAt: 500), count = 0
            while let next = try wanted.next() {
                let found = try made.next()
                #expect(found == next)
                count += 1
            }
            let last = try made.next()
            #expect(last == nil && count > 5)
            #expect(recording.takeCounts() == counts && rows.readCount == 0)
        }
    }
}
