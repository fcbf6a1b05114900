import AnabranchCore
import AnabranchTesting
import GRDB
import Testing

@testable import AnabranchHistory
@testable import AnabranchSQLite

/// What a reader's app knows of classes and columns, and the log does not, is kept until the user may write
/// (`Spec/Server.md`, section 3).
@Suite struct WithheldSchemaTests {
    private static let object = ObjectName(className: "Other", key: .int(1))
    private static let more: [NamedInstruction] = [
        .addTable("T"), .addColumn("T", "n", .int), .addTable("Other"), .addColumn("Other", "x", .int),
    ]
    private static let data: [NamedInstruction] = [
        .createObject(object), .update(FieldPath(object: object, field: "x"), .int(5)),
    ]

    /// Client 2 has made class T, and client 3 is a reader with class Other.
    private final class Fixture {
        let test: TestStore
        var file: SyncedFile

        init(_ kind: StoreKind) throws {
            test = try TestStore(kind)
            file = try SyncedFile.open(in: test.store, keepsState: true)
            _ = try file.allocateIdents(for: [nil, nil], at: 1000)
            let schema: [NamedInstruction] = [.addTable("T"), .addColumn("T", "n", .int)]
            #expect(try file.integrate(Upload([ChangesetWriter(schema).bytes]), from: 2) == nil)
        }

        func restart() throws {
            try test.restart()
            file = try SyncedFile.open(in: test.store, keepsState: true)
        }

        /// The uploads of the reader.
        func read(_ instructions: [NamedInstruction], as version: ClientVersion = 1) throws -> Upload {
            var upload = Upload([ChangesetWriter(instructions).bytes], from: version)
            #expect(try !file.withholdSchema(of: &upload).isEmpty)
            return upload
        }

        func write(_ version: ClientVersion = 2) throws -> HistoryError? {
            try file.integrate(Upload([ChangesetWriter(WithheldSchemaTests.data).bytes], from: version), from: 3)
        }

        func withheld() throws -> [UInt8] {
            try file.read { view throws(HistoryError) in try view.withheldSchema(of: 3) }
        }

        func x() throws -> Payload? {
            try file.withState { state in
                try state.read { try $0.object("Other", key: 1)?.value("x") }
            }
        }
    }

    @Test(arguments: StoreKind.allCases) func itComesBeforeTheFirstChangeThatNeedsIt(kind: StoreKind) throws {
        let fixture = try Fixture(kind)
        #expect(try fixture.file.integrate(try fixture.read(Self.more), from: 3) == nil)
        #expect(try fixture.withheld().count < ChangesetWriter(Self.more).bytes.count)
        #expect(try fixture.file.log().map(\.changeset.isEmpty) == [false, true])
        try fixture.restart()
        // What others have needs nothing of it.
        let own = ChangesetWriter([.createObject(ObjectName(className: "T", key: .int(1)))]).bytes
        #expect(try fixture.file.integrate(Upload([own], from: 2), from: 3) == nil)
        #expect(try !fixture.withheld().isEmpty)
        #expect(try fixture.write(3) == nil)
        #expect(try fixture.x() == .int(5))
        #expect(try fixture.withheld().isEmpty, "it is kept no longer")
        var arena = ChangesetArena()
        let entry = try #require(try fixture.file.log().last).decode(into: &arena)
        #expect(arena.instructions(of: entry).count == 2 + Self.data.count, "class T is there already")
        try fixture.test.verify()
    }

    /// What comes in several pieces, also without a commit in between, is kept as a whole.
    @Test(arguments: [false, true]) func allPiecesAreKept(areTogether: Bool) throws {
        let fixture = try Fixture(.sqlite)
        try fixture.file.enqueue(try fixture.read(Array(Self.more.prefix(3))), from: 3)
        if !areTogether { _ = try fixture.file.integrate(at: 9) }
        try fixture.file.enqueue(try fixture.read([.addTable("Other"), Self.more[3]], as: 2), from: 3)
        if !areTogether { _ = try fixture.file.integrate(at: 9) }
        #expect(try fixture.write(3) == nil)
        #expect(try fixture.x() == .int(5))
        #expect(try fixture.withheld().isEmpty)
    }

    /// A mistake stays one, and what is withheld stays for the next upload.
    @Test func itIsNoHelpAgainstOtherMistakes() throws {
        let fixture = try Fixture(.sqlite)
        #expect(try fixture.file.integrate(try fixture.read(Self.more), from: 3) == nil)
        let wrong = ChangesetWriter([.createObject(ObjectName(className: "Third", key: .int(1)))]).bytes
        #expect(try fixture.file.integrate(Upload([wrong], from: 2), from: 3)?.code == .badChangeset)
        #expect(try fixture.write() == nil)
    }

    @Test func itGoesWithItsClientFile() throws {
        for kind in StoreKind.allCases {
            let fixture = try Fixture(kind)
            #expect(try fixture.file.integrate(try fixture.read(Self.more), from: 3) == nil)
            #expect(try fixture.file.expire(3))
            #expect(try fixture.withheld().isEmpty)
        }
    }

    @Test func oneThatIsTooLargeIsNotKept() throws {
        let fixture = try Fixture(.sqlite)
        let many = (0..<1_500).map { NamedInstruction.addColumn("T", "a column with a long name, number \($0)", .int) }
        #expect(ChangesetWriter(many).bytes.count > Upload.withheldSchemaBytesMax)
        #expect(try fixture.file.integrate(try fixture.read(Self.more + many), from: 3) == nil)
        #expect(try fixture.withheld().isEmpty)
        #expect(try fixture.write()?.code == .badChangeset)
    }

    @Test func damageIsFound() throws {
        let fixture = try Fixture(.sqlite)
        #expect(try fixture.file.integrate(try fixture.read(Self.more), from: 3) == nil)
        let store = try #require(fixture.test.store as? SQLiteStore)
        try store.shards[fixture.file.id.shard].pool.write { db in
            try db.execute(sql: "UPDATE withheld_schema SET changeset = x'00'")
        }
        #expect(throws: HistoryError.self) { try fixture.withheld() }
        #expect(try fixture.write()?.code == .storeDamaged)
        try store.close()
        var places: [String] = []
        try StoreVerification(directory: fixture.test.path).checkFiles { places += $0.damages.map(\.place) }
        #expect(places == ["schema withheld of client file 3"])
    }
}
