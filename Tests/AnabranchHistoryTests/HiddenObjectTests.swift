import AnabranchCore
import AnabranchRules
import AnabranchTesting
import Testing

@testable import AnabranchHistory

/// Nobody is told what was done to objects while he could not read them.
@Suite struct HiddenObjectTests {
    /// Of a user who reads the notes that a condition is true of.
    private static func rules(reads condition: String) throws -> UserRules {
        let role = """
            {"name": "r", "apply_when": {}, "document_filters": {"read": \(condition), "write": false}, \
            "read": true, "write": true, "insert": false, "delete": false}
            """
        let file = AppFile(path: "rules.json", bytes: #"{"roles": [\#(role)]}"#.utf8)
        return try Rules(classes: ["Note": file], defaultRule: nil).rules(for: try RuleUser(id: "a"))
    }

    private static let open = #"{"team": "red"}"#
    private static let secret = Array("TOP-SECRET".utf8)

    /// A client that reads the notes of the red team, with a note of it.
    private func fixture(_ kind: StoreKind) throws -> FlexibleFixture {
        var fixture = try FlexibleFixture(kind)
        try fixture.file.write(at: 2) { transaction in
            try transaction.addColumn("team", .string, isNullable: true, to: "Note")
            try transaction.create("Note", key: 1, ["text": .string([0x61]), "team": .string(Array("red".utf8))])
        }
        try fixture.identify(rules: try Self.rules(reads: Self.open))
        try fixture.integrate()
        try fixture.upload()
        #expect(try fixture.objectCount() == 1)
        return fixture
    }

    private func write(
        _ fixture: FlexibleFixture, _ time: UInt64, key: Int64, _ text: [UInt8], team: String?
    ) throws {
        try fixture.file.write(at: ChangesetTime(rawValue: time)) { transaction in
            let values: [String: Payload] = [
                "text": .string(text), "team": team.map { .string(Array($0.utf8)) } ?? .null,
            ]
            guard let note = try transaction.object("Note", key: .int(key)) else {
                try transaction.create("Note", key: .int(key), values)
                return
            }
            for (name, value) in values { try note.set(name, to: value) }
        }
    }

    /// - Returns: whether a client is told something that has the secret in it.
    private func isTold(_ fixture: inout FlexibleFixture) throws -> Bool {
        var isTold = false
        while let message = try fixture.file.download(for: &fixture.session) {
            for sent in message.download.changesets {
                let places = sent.changeset.indices.dropLast(Self.secret.count - 1)
                if places.contains(where: { sent.changeset[$0...].starts(with: Self.secret) }) { isTold = true }
            }
            try fixture.client.integrate(message.download)
        }
        return isTold
    }

    @Test(arguments: StoreKind.allCases, [Int64(1), 2])
    func whatWasHiddenForAWhileComesAsItIsNow(_ kind: StoreKind, key: Int64) throws {
        var fixture = try fixture(kind)
        fixture.file.leave(fixture.client.ident)
        try write(fixture, 3, key: key, Self.secret, team: "blue")
        try write(fixture, 4, key: key, Array("harmless".utf8), team: "blue")
        try write(fixture, 5, key: key, Array("harmless".utf8), team: "red")
        try fixture.identify(rules: try Self.rules(reads: Self.open))
        #expect(try !isTold(&fixture))
        let text = try fixture.client.state.read { try $0.object("Note", key: .int(key))?.value("text") }
        #expect(text == .string(Array("harmless".utf8)))
    }

    /// One UPLOAD is one step for those who are connected.
    @Test(arguments: StoreKind.allCases) func itIsNotToldOfOneUploadEither(_ kind: StoreKind) throws {
        var fixture = try fixture(kind)
        var (author, session) = try FlexibleFixture.join(fixture.synced, fixture.file)
        #expect(try fixture.file.query(FlexibleFixture.all, in: &session) == nil)
        while let message = try fixture.file.download(for: &session) { try author.integrate(message.download) }
        try author.write(at: 10) { transaction in
            try transaction.create("Note", key: 5, ["text": .string(Self.secret), "team": .null])
        }
        try author.write(at: 11) { try $0.object("Note", key: 5)?.set("text", to: .string([0x62])) }
        try author.write(at: 12) { try $0.object("Note", key: 5)?.set("team", to: .string(Array("red".utf8))) }
        while let upload = author.nextUpload(.max), let rest = try session.progress.accept(upload) {
            _ = try fixture.file.integrate(rest, from: author.ident, at: 1)
        }
        #expect(try !isTold(&fixture))
        #expect(try fixture.objectCount() == 2)
    }

    @Test(arguments: StoreKind.allCases, [Int64(1), 2])
    func whoMayReadNoMoreIsNotToldWhatCameLater(_ kind: StoreKind, key: Int64) throws {
        var fixture = try fixture(kind)
        fixture.file.leave(fixture.client.ident)
        try write(fixture, 3, key: key, Self.secret, team: "red")
        try fixture.identify(rules: try Self.rules(reads: #"{"team": "green"}"#))
        #expect(try !isTold(&fixture))
        #expect(try fixture.objectCount() == 0)
    }

    /// Another role that lets one read the object: as it is now.
    @Test(arguments: StoreKind.allCases) func anotherRoleGetsWhatItMayRead(_ kind: StoreKind) throws {
        var fixture = try fixture(kind)
        fixture.file.leave(fixture.client.ident)
        try write(fixture, 3, key: 1, Self.secret, team: "red")
        try write(fixture, 4, key: 1, Array("harmless".utf8), team: "green")
        try write(fixture, 5, key: 2, [0x62], team: "green")
        try fixture.identify(rules: try Self.rules(reads: #"{"team": "green"}"#))
        #expect(try !isTold(&fixture))
        #expect(try fixture.objectCount() == 2)
    }
}
