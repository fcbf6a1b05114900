import AnabranchCore
import AnabranchTesting
import Testing

@testable import AnabranchHistory

/// Changes that a device has not uploaded, made again on what a synced file holds (`Spec/Export.md`, section 6).
@Suite struct DeviceChangesTests {
    private final class Desk {
        let test: TestStore
        let file: SyncedFile
        private static let now: ChangesetTime = 1_000_000

        /// An object 1 with the number 0 and the list 1, 2, from the time 10.
        init(_ kind: StoreKind = .memory) throws {
            test = try TestStore(kind)
            file = try SyncedFile(path: VirtualPath("/a"), store: test.store)
            try file.write(at: 10) { transaction in
                try transaction.addClass("T", key: "_id", .int)
                try transaction.addColumn("n", .int, to: "T")
                try transaction.addColumn("l", .int, collection: .list, to: "T")
                let object = try transaction.create("T", key: .int(1))
                for value in [1, 2] { try object.list("l").append(.int(Int64(value))) }
            }
        }

        /// Makes the changes of a device.
        /// - Parameter objects: what the device holds, as lines.
        @discardableResult
        func make(
            _ changes: [(time: ChangesetTime, changeset: ChangesetWriter)], holding objects: [String] = []
        ) throws -> DeviceChanges {
            let classes = try file.withState { $0.exportedClasses }
            let device = try DeviceChanges(
                classes: classes, objects: try objects.map { try ExportLine(parsing: Array($0.utf8)) })
            for (index, change) in changes.enumerated() {
                let version = UInt64(index + 1)
                try device.add(
                    change.changeset.bytes, named: "\(version) \(change.time)", version: version, at: change.time)
            }
            try device.end(of: 7)
            for (position, change) in device.changes.enumerated() {
                try device.prepare(position, in: file, at: Self.now)
                let written = try file.write(
                    idempotencyKey: change.idempotencyKey, at: device.time(of: position, at: Self.now)
                ) { try device.make(position, on: $0) }
                device.record(written, of: position)
            }
            return device
        }

        var lines: [String] {
            get throws {
                var lines: [String] = []
                try file.withState { state in
                    try state.forEachExportLine { lines.append(String(decoding: $0, as: UTF8.self)) }
                }
                return lines.filter { $0.hasPrefix("[") }
            }
        }
    }

    private static func change(_ body: (inout ChangesetWriter) -> Void) -> ChangesetWriter {
        var writer = ChangesetWriter()
        body(&writer)
        return writer
    }

    private static func line(_ number: Int, _ list: [Int], key: Int = 1) -> String {
        let elements = list.map { "{\"int\":\"\($0)\"}" }.joined(separator: ",")
        return "[\"T\",{\"int\":\"\(key)\"},{\"l\":{\"list\":[\(elements)]},\"n\":{\"int\":\"\(number)\"}}]"
    }

    @Test func theNewerValueStays() throws {
        let desk = try Desk()
        try desk.file.write(at: 100_000) { try $0.object("T", key: .int(1))?["n"] = .int(5) }
        let older = try desk.make([(time: 90_000, changeset: Self.change { $0.set(1, to: 7) })])
        #expect(try desk.lines == [Self.line(5, [1, 2])])
        #expect(older.losses.map(\.kept) == ["{\"int\":\"5\"}"] && older.losses.map(\.keptTime) == [100_000])
        #expect(older.losses.first?.change == "Update T[1].n = Int 7" && older.losses.first?.time == 90_000)
        let newer = try desk.make([(time: 110_000, changeset: Self.change { $0.set(1, to: 8) })])
        #expect(newer.lossCount == 0 && newer.madeCount == 1)
        #expect(try desk.lines == [Self.line(8, [1, 2])])
        // The next device's change is compared with that of this one.
        let third = try desk.make([(time: 109_000, changeset: Self.change { $0.set(1, to: 9) })])
        #expect(third.losses.map(\.keptTime) == [110_000])
    }

    @Test func whatTheDeviceHasReplacedItselfIsNotLost() throws {
        let desk = try Desk()
        try desk.file.write(at: 100_000) { try $0.object("T", key: .int(1))?["n"] = .int(5) }
        let changes = [4, 5].map { value in
            (time: ChangesetTime(90_000), changeset: Self.change { $0.set(1, to: value) })
        }
        #expect(try desk.make(changes).lossCount == 0)
    }

    @Test func sumsAndElementsComeTogether() throws {
        let desk = try Desk()
        try desk.file.write(at: 100_000) { transaction in
            let object = try #require(try transaction.object("T", key: .int(1)))
            try object.add(3, to: "n")
            try object.list("l").insert(.int(9), at: 0)
        }
        let change = Self.change {
            $0.add(1, amount: 4)
            $0.listInsert(1, at: 1, value: 7, size: 2)
        }
        let device = try desk.make([(time: 90_000, changeset: change)], holding: [Self.line(4, [1, 7, 2])])
        #expect(device.lossCount == 0)
        // An element that is inserted elsewhere than at the end comes to the same index (`Spec/Replica.md`, section 4).
        #expect(try desk.lines == [Self.line(7, [9, 7, 1, 2])])
    }

    @Test(arguments: StoreKind.allCases) func nothingComesTwice(kind: StoreKind) throws {
        let desk = try Desk(kind)
        let change = Self.change { $0.listInsert(1, at: 2, value: 7, size: 2) }
        for _ in 1...2 {
            try desk.make([(time: 90_000, changeset: change)], holding: [Self.line(0, [1, 2, 7])])
            #expect(try desk.lines == [Self.line(0, [1, 2, 7])])
        }
        // Under another name as well, since the object is as the device has it.
        try desk.make([(time: 90_001, changeset: change)], holding: [Self.line(0, [1, 2, 7])])
        #expect(try desk.lines == [Self.line(0, [1, 2, 7])])
    }

    @Test func objectsAreMadeErasedAndMissed() throws {
        let desk = try Desk()
        let change = Self.change {
            $0.create(2)
            $0.set(2, to: 3)
            $0.erase(1)
            $0.set(9, to: 4)
        }
        let held = [Self.line(3, [], key: 2), Self.line(4, [], key: 9)]
        let device = try desk.make([(time: 90_000, changeset: change)], holding: held)
        #expect(try desk.lines == [Self.line(3, [], key: 2)])
        #expect(device.losses.map(\.reason) == ["the object is gone"] && device.losses.first?.kept == nil)
    }

    @Test func listsThatNobodyHasAreRefused() throws {
        let desk = try Desk()
        let change = Self.change { $0.listInsert(1, at: 0, value: 7, size: 4_000_000_000) }
        #expect(throws: HistoryError(.badChangeset, "")) {
            try desk.make([(time: 90_000, changeset: change)])
        }
        #expect(try desk.lines == [Self.line(0, [1, 2])])
    }

    /// A clock that was ahead does not decide about what comes later.
    @Test func aTimeThatIsStillToComeIsThePresent() throws {
        let desk = try Desk()
        try desk.make([(time: 2_000_000, changeset: Self.change { $0.set(1, to: 7) })])
        let device = try desk.make([(time: 1_000_000, changeset: Self.change { $0.set(1, to: 8) })])
        #expect(device.lossCount == 0)
        #expect(try desk.lines == [Self.line(8, [1, 2])])
    }
}
