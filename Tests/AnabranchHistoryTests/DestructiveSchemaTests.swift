import AnabranchCore
import AnabranchTesting
import Testing

@testable import AnabranchHistory

/// Which changesets may take classes and columns away (`Spec/History.md`, section 16.2).
@Suite struct DestructiveSchemaTests {
    /// A file with class T, column T.n and T[1]; two clients have it.
    private static func file(_ rule: DestructiveSchema, keepsState: Bool = true) throws -> SyncedFile {
        let file = try SyncedFile.open(in: InMemoryStore(), keepsState: keepsState, destructiveSchema: rule)
        _ = try file.allocateIdents(for: [nil, nil], at: 1)
        let start = ChangesetWriter([
            .addTable("T"), .addColumn("T", "n"),
            .createObject(ObjectName(className: "T", key: 1)),
        ])
        #expect(try file.integrate(Upload([start.bytes]), from: 2) == nil)
        return file
    }

    private static let addition = NamedInstruction.addTable("T")
    private static let erasures: [NamedInstruction] = [.eraseTable("T"), .eraseColumn("T", "n")]
    private static let use = NamedInstruction.createObject(ObjectName(className: "T", key: 2))

    private static func upload(_ instructions: [NamedInstruction]) -> Upload {
        Upload([ChangesetWriter(instructions).bytes], from: 2, base: 1)
    }

    @Test(arguments: [true, false]) func anErasureIsRefusedAndNothingOfItsUploadStays(keepsState: Bool) throws {
        for erasure in Self.erasures {
            let file = try Self.file(.refuse, keepsState: keepsState)
            try file.enqueue(Self.upload([Self.use, erasure]), from: 2)
            try file.enqueue(Self.upload([.createObject(ObjectName(className: "T", key: 3))]), from: 3)
            let outcomes = try file.integrate(at: 2).outcomes
            #expect(outcomes.map(\.refusal?.code) == [.destructiveSchemaChange, nil])
            #expect(outcomes[0].refusal?.isTransient == false)
            #expect(outcomes[0].refusal?.reason.contains("T") == true)
            #expect(try file.log().map(\.origin) == [2, 3])
            #expect(try file.clientFile(2)?.uploadCursor.clientVersion == 1)
        }
    }

    @Test func anErasureEntersWhereThatIsAllowed() throws {
        for erasure in Self.erasures {
            let file = try Self.file(.allow)
            #expect(try file.integrate(Self.upload([Self.use, erasure]), from: 2) == nil)
            #expect(file.version == 2)
        }
    }

    /// What ends the process of every client enters nowhere, not even as a write of the server.
    @Test func aClassThatIsReplacedAndUsedInOneChangesetIsRefusedEverywhere() throws {
        let file = try Self.file(.allow)
        let replaced = [.eraseTable("T"), Self.addition]
        let addColumn = NamedInstruction.addColumn("T", "n")
        for use in [Self.use, addColumn] {
            let refusal = try file.integrate(Self.upload(replaced + [use]), from: 2)
            #expect(refusal?.code == .destructiveSchemaChange)
        }
        #expect(
            try code {
                try file.write(at: 1) { tx in
                    try tx.eraseClass("T")
                    try tx.addClass("T", key: "_id", .int)
                    try tx.create("T", key: 2)
                }
            } == .destructiveSchemaChange)
        #expect(file.version == 1)
        // In two changesets it is fine, and so is what came before the erasure.
        let both = [[Self.use, .eraseTable("T"), Self.addition], [addColumn, Self.use]]
        let upload = Upload(both.map { ChangesetWriter($0).bytes }, from: 2, base: 1)
        #expect(try file.integrate(upload, from: 2) == nil)
        #expect(file.version == 3)
    }
}
