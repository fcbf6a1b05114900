import AnabranchCore
import AnabranchTesting
import Foundation
import Testing

@testable import AnabranchHistory

/// Columns are erased while others change them: random runs of clients that know whole states. The server refuses
/// nobody, its log applies to the last instruction, and all end in one state (`Spec/History.md`, section 16.1).
@Suite struct ErasureTests {
    @Test func erasuresLeaveOneStateAndALogThatApplies() throws {
        let seed = ProcessInfo.processInfo.environment["ANABRANCH_SEED"].flatMap(UInt64.init)
        var skippedCount = 0
        for seed in seed.map({ $0...$0 }) ?? 1...150 {
            let repeating = "repeat with ANABRANCH_SEED=\(seed) swift test --filter ErasureTests"
            do {
                skippedCount += try Self.run(seed: seed)
            } catch {
                Issue.record("seed \(seed): \(error); \(repeating)")
            }
        }
        if seed == nil { #expect(skippedCount > 50, "hardly anything was ever skipped") }
    }

    /// - Returns: How many instructions were skipped.
    private static func run(seed: UInt64) throws -> Int {
        var random = SeededRandom(seed: seed)
        let file = try SyncedFile.open(in: InMemoryStore(), keepsState: true)
        try file.write(at: 1, start)
        var clients = try file.allocateIdents(for: [nil, nil, nil], at: 1).map {
            // It has erased columns, too, and cannot apply all that others do to them.
            MemoryClient($0, skipsFailures: true)
        }
        for index in clients.indices { try clients[index].download(from: file) }
        var skippedCount = 0
        for step in 2..<120 {
            let index = Int.random(in: 0..<3, using: &random)
            switch Int.random(in: 0..<10, using: &random) {
            case 0..<6:
                let skew = UInt64.random(in: 0..<9, using: &random)
                try clients[index].write(at: ChangesetTime(step) + skew) { try change($0, &random) }
            case 6..<8: skippedCount += try skippedCountOfUpload(&clients[index], to: file)
            default: try clients[index].download(from: file)
            }
        }
        for index in clients.indices { skippedCount += try skippedCountOfUpload(&clients[index], to: file) }
        for index in clients.indices { try clients[index].download(from: file) }
        let digest = try file.withState { try StateDigest(of: $0) }
        var replayed = ObjectGraph()
        try expect(try replayed.replay(file.log()).skippedCount == 0, "the log does not apply")
        try expect(try StateDigest(of: replayed) == digest, "the state is not that of the log")
        for client in clients {
            try expect(try StateDigest(of: client.state) == digest, "client \(client.ident) differs")
        }
        return skippedCount
    }

    private static func skippedCountOfUpload(_ client: inout MemoryClient, to file: SyncedFile) throws -> Int {
        try client.upload(to: file)?.skippedInstructions.count ?? 0
    }

    private static func expect(_ holds: Bool, _ violation: String) throws {
        if !holds { throw Workload.Violation(description: violation) }
    }

    private static let columns = ["a", "b", "c", "d"]

    /// Columns that can be erased, in objects and in objects embedded in them.
    private static func start(_ tx: WriteTransaction) throws {
        try tx.addClass("T", key: "_id", .int)
        try tx.addEmbeddedClass("E")
        try tx.addLink("e", to: "E", of: "T")
        for column in columns {
            try tx.addColumn(column, .int, collection: .list, to: "T")
            try tx.addColumn(column, .int, collection: .set, to: "E")
        }
        for key in 0..<2 as Range<Int64> { try tx.create("T", key: .int(key)).createObject("e") }
    }

    /// A few changes of one object, or the end of a column.
    private static func change(_ tx: WriteTransaction, _ random: inout SeededRandom) throws {
        let object = try #require(try tx.object("T", key: .int(Int64.random(in: 0..<2, using: &random))))
        let embedded = try #require(try object.object("e"))
        for _ in 0..<Int.random(in: 1..<5, using: &random) {
            let column = columns[Int.random(in: 0..<columns.count, using: &random)]
            let value = Payload.int(Int64.random(in: 0..<5, using: &random))
            let isErasing = Int.random(in: 0..<25, using: &random) == 0
            if Bool.random(using: &random) {
                guard let list = try? object.list(column) else { continue }
                if isErasing { return try tx.eraseColumn(column, of: "T") }
                let count = try list.count
                if count > 0, Bool.random(using: &random) {
                    try list.remove(at: Int.random(in: 0..<count, using: &random))
                } else {
                    try list.insert(value, at: Int.random(in: 0...count, using: &random))
                }
            } else {
                guard let set = try? embedded.set(column) else { continue }
                if isErasing { return try tx.eraseColumn(column, of: "E") }
                if Bool.random(using: &random) { try set.insert(value) } else { try set.remove(value) }
            }
        }
    }
}
