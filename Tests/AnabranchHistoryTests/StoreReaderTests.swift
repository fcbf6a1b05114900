import AnabranchCore
import AnabranchTesting
import Foundation
import Testing

@testable import AnabranchHistory
@testable import AnabranchSQLite

/// Readers of a store, while somebody writes to it.
@Suite struct StoreReaderTests {
    private final class Fixture {
        let directory: TemporaryDirectory
        var store: SQLiteStore
        private var file: SyncedFile

        init() throws {
            directory = try TemporaryDirectory()
            store = try SQLiteStore(directory: directory.path)
            file = try SyncedFile(path: VirtualPath("/a"), store: store)
        }

        /// Makes a version that changes all objects.
        func write(_ number: Int64) throws {
            try file.write(at: 1) { tx in
                try tx.addClass("Note", key: "_id", .int)
                try tx.addColumn("text", .string, to: "Note")
                for key in 0..<40 {
                    let text = Payload.string(Array(repeating: UInt8(ascii: "a") + UInt8(number % 26), count: 4_000))
                    try tx.create("Note", key: .int(Int64(key)), ["text": text])
                }
            }
        }

        func names() throws -> Set<String> {
            Set(try FileManager.default.contentsOfDirectory(atPath: directory.path))
        }
    }

    private static func text(_ file: StoredFile) throws -> [UInt8] {
        try file.state(at: file.head.version).canonicalJSON()
    }

    @Test func aReaderSeesOneMomentAndTheWriterGoesOn() throws {
        let fixture = try Fixture()
        for number in 1...3 as ClosedRange<Int64> { try fixture.write(number) }
        var reader = Optional(try StoreReader(directory: fixture.directory.path))
        var file = try #require(try reader?.file(VirtualPath("/a")))
        let before = try Self.text(file)
        #expect(reader?.isWrittenByOthers == true)
        for number in 4...40 as ClosedRange<Int64> { try fixture.write(number) }
        try fixture.store.maintain(at: 1)
        #expect(file.head.version == 3)
        #expect(try Self.text(file) == before)
        #expect(try reader?.file(VirtualPath("/a"))?.head.version == 3)
        let verification = try StoreVerification(directory: fixture.directory.path)
        #expect(verification.isBesideServer)
        try fixture.write(41)
        #expect(try verification.checkDatabase() == [])
        var entryCount = 0
        try verification.checkFiles {
            #expect($0.damages == [])
            entryCount += $0.entryCount
        }
        #expect(entryCount == 40, "of the moment when it was opened")
        reader = try StoreReader(directory: fixture.directory.path)
        file = try #require(try reader?.file(VirtualPath("/a")))
        #expect(file.head.version == 41)
        #expect(try Self.text(file) != before)
    }

    /// A writer that has ended while somebody reads, and one that begins then.
    @Test func aWriterMayEndAndBeginMeanwhile() throws {
        let fixture = try Fixture()
        try fixture.write(1)
        let reader = try StoreReader(directory: fixture.directory.path)
        let file = try #require(try reader.file(VirtualPath("/a")))
        let before = try Self.text(file)
        try fixture.store.close()
        fixture.store = try SQLiteStore(directory: fixture.directory.path)
        let again = try SyncedFile(path: VirtualPath("/a"), store: fixture.store)
        for _ in 0..<20 { try again.write(at: 1) { try $0.deleteAll("Note") } }
        try fixture.store.maintain(at: 1)
        #expect(try Self.text(file) == before)
        #expect(again.version == 2)
    }

    /// Without a writer nobody can begin to be one, others can read, and no file is left.
    @Test func readersOfAStoppedStoreKeepWritersAway() throws {
        let fixture = try Fixture()
        try fixture.write(1)
        try fixture.store.close()
        let names = try fixture.names()
        #expect(try StoreReader(directory: fixture.directory.path).files().count == 1)
        #expect(try fixture.names() == names)
        var first = Optional(try StoreReader(directory: fixture.directory.path))
        var second = Optional(try StoreReader(directory: fixture.directory.path))
        #expect(first?.isWrittenByOthers == false && second?.isWrittenByOthers == false)
        for reader in [first, second] {
            #expect(try reader?.files().map(\.head.version) == [1])
            #expect(throws: HistoryError(.storeUnusable, "")) { try SQLiteStore(directory: fixture.directory.path) }
        }
        first = nil
        #expect(try second?.files().map(\.head.version) == [1])
        #expect(throws: HistoryError(.storeUnusable, "")) { try SQLiteStore(directory: fixture.directory.path) }
        second = nil
        try SQLiteStore(directory: fixture.directory.path).close()
    }
}
