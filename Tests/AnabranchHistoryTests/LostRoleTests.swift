import AnabranchCore
import AnabranchRules
import AnabranchTesting
import Testing

@testable import AnabranchHistory

/// What a device has written to objects that its user lost the role for meanwhile is refused, and it is told so.
@Suite struct LostRoleTests {
    private static func rules(reads condition: String) throws -> UserRules {
        let role = """
            {"name": "r", "apply_when": {}, "document_filters": {"read": \(condition), "write": \(condition)}, \
            "read": true, "write": true, "insert": true, "delete": true}
            """
        let file = AppFile(path: "rules.json", bytes: #"{"roles": [\#(role)]}"#.utf8)
        return try Rules(classes: ["Note": file], defaultRule: nil).rules(for: try RuleUser(id: "a"))
    }

    /// - Returns: the keys of the objects that the client is told about.
    private static func told(_ fixture: inout FlexibleFixture) throws -> [PrimaryKey] {
        var keys: [PrimaryKey] = []
        while let message = try fixture.file.download(for: &fixture.session) {
            for write in message.compensations {
                // Clients tell it when they have come to a changeset of that version.
                #expect(message.download.changesets.contains { $0.cursor.serverVersion == write.version })
                keys += write.objects.map(\.key)
            }
            try fixture.client.integrate(message.download)
        }
        return keys
    }

    @Test(arguments: StoreKind.allCases, [true, false])
    func theClientIsTold(_ kind: StoreKind, isOnline: Bool) throws {
        var fixture = try FlexibleFixture(kind)
        for key in 1...4 as ClosedRange<Int64> { try fixture.create(key) }
        try fixture.integrate()
        try fixture.upload()
        if !isOnline { fixture.file.leave(fixture.client.ident) }
        // 1 stays, 2 and 3 go with the role, and 4 was erased by somebody else, of which nobody is told.
        for key in 1...4 as ClosedRange<Int64> {
            try fixture.client.write(at: 100) { transaction in
                try transaction.object("Note", key: .int(key))?.set("text", to: .string([0x62]))
            }
        }
        try fixture.file.write(at: 101) { transaction in
            if let note = try transaction.object("Note", key: 4) { try transaction.delete(note) }
        }
        let rules = try Self.rules(reads: #"{"_id": {"$lt": 2}}"#)
        if isOnline {
            fixture.file.change(fixture.client.ident, to: rules)
        } else {
            try fixture.identify(rules: rules)
        }
        try fixture.upload()
        #expect(try Self.told(&fixture) == [2, 3])
        #expect(try fixture.objectCount() == 1)
        try fixture.upload()
        #expect(try Self.told(&fixture) == [])
        try fixture.test.verify()
    }
}
