import AnabranchCore
import AnabranchHistory
import AnabranchProtocol
import AnabranchTesting
import Testing

@testable import AnabranchServer

/// Clients of old releases, and what others must not do to them (`Spec/Protocol.md`, section 6.1): they say what
/// those releases say when they connect.
@Suite struct OldClientTests {
    /// A release as the server sees it.
    struct Release: CustomTestStringConvertible, Sendable {
        /// Nil: the platform's socket sends a header of its own.
        var core: String?
        /// The highest version that it offers.
        var version: Int

        var testDescription: String { "\(core ?? "?") speaks \(version)" }

        func negotiation() throws -> Negotiation {
            let separator = version < 8 ? "/" : "#"
            let offer = stride(from: version, through: 2, by: -1).map { "com.mongodb.realm-sync\(separator)\($0)" }
            return try Negotiation(
                offer: offer.joined(separator: ", "),
                userAgent: core.map { "RealmSync/\($0) (Linux Linux 6.1.0 x86_64) test" } ?? "okhttp/4.9.0")
        }

        static let newest = Release(core: "14.14.0", version: 14)
        /// They end their process when they erase an entry that they do not have.
        static let withAbsentEntries = [
            Release(core: "12.0.0", version: 4), Release(core: "12.13.0", version: 7),
            Release(core: "13.5.0", version: 7), Release(core: "13.27.0", version: 11),
            Release(core: "14.4.1", version: 11), Release(core: "14.5.1", version: 12),
            Release(core: nil, version: 4), Release(core: nil, version: 12),
            // Such a release does not offer that.
            Release(core: "14.14.0", version: 7),
        ]
        static let beforeCollectionsInMixed =
            withAbsentEntries + [Release(core: "14.5.2", version: 12), Release(core: "14.6.2", version: 12)]
        static let current = [
            newest, Release(core: "14.7.0", version: 13), Release(core: nil, version: 13),
            Release(core: nil, version: 14),
        ]
    }

    /// A client that does as it is told by a test.
    private final class Client {
        let rig: WireRig
        let connection: RigConnection
        private(set) var ident = 0

        init(_ rig: WireRig, _ release: Release) throws {
            self.rig = rig
            connection = rig.connect(try release.negotiation())
            let partition = "\"notes\""
            say("bind 1 \(partition.utf8.count) 0 1 0\n\(partition)")
            let words = try #require(hear().first).words
            ident = Int(words[2]) ?? 0
            say("ident 1 \(words[2]) \(words[3]) 0 0 0 0\n")
        }

        func say(_ message: String, _ body: [UInt8] = []) {
            connection.wire.receive(Array(message.utf8) + body)
            rig.run()
        }

        func hear() -> [SyncMessage] {
            defer { connection.sent = [] }
            return connection.sent.map { SyncMessage($0) }
        }

        /// Uploads a changeset as its `version`-th, made on a server version.
        func upload(_ changeset: [UInt8], version: Int, base: Int, at timestamp: Int = 1) {
            let body = Array("\(version) \(base) \(timestamp) 0 \(changeset.count) ".utf8) + changeset
            say("upload 1 0 \(body.count) 0 \(version) \(base) \(base)\n", body)
        }

        /// The entries that it was sent, and the errors.
        func downloaded() throws -> (entries: [DownloadedChangeset], errors: [SyncMessage]) {
            let messages = hear()
            let downloads = try messages.filter { $0.kind == "download" }.map { try #require(ReceivedDownload($0)) }
            return (downloads.flatMap(\.entries), messages.filter { $0.kind == "json_error" })
        }
    }

    private static func write(_ graph: inout ObjectGraph, _ body: (WriteTransaction) throws -> Void) throws -> [UInt8] {
        try graph.write(as: 9, body).changeset
    }

    private static func text(_ error: SyncMessage) -> String { String(decoding: error.body, as: UTF8.self) }

    /// Applies what was downloaded to an empty file, as a release does it.
    private static func state(_ entries: [DownloadedChangeset], _ refusals: ApplyRefusals) throws -> String {
        var state = ObjectGraph()
        for entry in entries {
            var arena = ChangesetArena()
            let index = try arena.decode(entry.changeset, version: entry.cursor.serverVersion.rawValue, tag: entry.tag)
            _ = try state.applyTransactions([index], of: &arena, refusing: refusals) { _ in false }
        }
        return String(decoding: try state.canonicalJSON(), as: UTF8.self)
    }

    // MARK: Erased entries

    /// Two devices erase the same entries offline; all dictionaries of one object have such an entry.
    private static func erasedTwice(in rig: WireRig) throws {
        let first = try Client(rig, .newest), second = try Client(rig, .newest)
        var graph = ObjectGraph()
        let start = try write(&graph) { tx in
            try tx.addClass("T", key: "_id", .int)
            try tx.addEmbeddedClass("E")
            try tx.addColumn("counts", .int, collection: .dictionary, to: "T")
            try tx.addColumn("words", .string, isNullable: true, collection: .dictionary, to: "T")
            try tx.addColumn("extras", .null, collection: .dictionary, to: "T")
            try tx.addLink("links", to: "T", collection: .dictionary, of: "T")
            try tx.addLink("parts", to: "E", collection: .dictionary, of: "T")
            let object = try tx.create("T", key: 1)
            try object.dictionary("counts").set(1, for: "a")
            try object.dictionary("words").set("w", for: "a")
            try object.dictionary("extras").set(2, for: "a")
            try object.dictionary("links").set(object.link, for: "a")
            try object.dictionary("parts").createObject(for: "a")
        }
        first.upload(start, version: 2, base: 0)
        let erasures = try write(&graph) { tx in
            let object = try #require(try tx.object("T", key: 1))
            for field in ["counts", "words", "extras", "links", "parts"] { try object.dictionary(field).remove("a") }
        }
        _ = (first.hear(), second.hear())
        second.upload(erasures, version: 2, base: 1, at: 5)
        first.upload(erasures, version: 3, base: 1, at: 6)
    }

    @Test(arguments: Release.withAbsentEntries) func erasedEntriesAreThereWhenTheyAreErased(release: Release) throws {
        let rig = WireRig()
        try Self.erasedTwice(in: rig)
        let before = try Client(rig, .newest).downloaded().entries
        #expect(before.count == 3)
        #expect(throws: ApplyError.self) { try Self.state(before, .absentErasures) }
        let (entries, errors) = try Client(rig, release).downloaded()
        #expect(errors == [] && entries.map(\.cursor) == before.map(\.cursor))
        #expect(try Self.state(entries, .absentErasures) == Self.state(before, []))
        #expect(entries[0].changeset == before[0].changeset)
        #expect(entries[2].changeset != before[2].changeset)
        // A body for one form is not sent to the others.
        #expect(try Client(rig, .newest).downloaded().entries == before)
        #expect(try Client(rig, release).downloaded().entries == entries)
    }

    @Test(arguments: Release.current + [Release(core: "14.5.2", version: 12)])
    func everybodyElseGetsTheLogAsItIs(release: Release) throws {
        let rig = WireRig()
        try Self.erasedTwice(in: rig)
        let entries = try Client(rig, release).downloaded().entries
        #expect(entries == (try Client(rig, .newest).downloaded().entries))
        #expect(throws: ApplyError.self) { try Self.state(entries, .absentErasures) }
    }

    // MARK: What cannot be read

    /// A client of the newest release has a list in a Mixed, after changes that everybody can read.
    private static func collectionInMixed(in rig: WireRig) throws {
        let writer = try Client(rig, .newest)
        var graph = ObjectGraph()
        let readable = try write(&graph) { tx in
            try tx.addClass("T", key: "_id", .int)
            try tx.addColumn("any", .null, to: "T")
            try tx.create("T", key: 1)
        }
        let nested = try write(&graph) { tx in
            try tx.object("T", key: 1)?.set("any", to: .list)
            try tx.object("T", key: 1)?.list("any").append(1)
        }
        writer.upload(readable, version: 2, base: 0)
        writer.upload(nested, version: 3, base: 0)
    }

    @Test(arguments: Release.beforeCollectionsInMixed)
    func aClientThatCannotReadOnIsToldToBeUpdated(release: Release) throws {
        let rig = WireRig()
        try Self.collectionInMixed(in: rig)
        let client = try Client(rig, release)
        let (entries, errors) = try client.downloaded()
        #expect(entries.map(\.cursor.serverVersion) == [1], "it gets what it can read")
        let error = try #require(errors.first)
        #expect(error.words[1] == "225" && errors.count == 1)
        let text = Self.text(error)
        #expect(text.contains(#""action":"ApplicationBug""#) && text.contains(#""shouldClientReset":false"#))
        #expect(text.contains(#""tryAgain":false"#) && text.contains("update the app"))
        // The others go on.
        let (all, none) = try Client(rig, .newest).downloaded()
        #expect(all.count == 2 && none == [])
    }

    @Test(arguments: Release.current) func newReleasesReadCollectionsInMixed(release: Release) throws {
        let rig = WireRig()
        try Self.collectionInMixed(in: rig)
        let (entries, errors) = try Client(rig, release).downloaded()
        #expect(entries.count == 2 && errors == [])
    }

    @Test func onlyTheOldestCannotReadAsymmetricClasses() throws {
        let rig = WireRig()
        var graph = ObjectGraph()
        let changeset = try Self.write(&graph) { try $0.addClass("X", key: "_id", .int, isAsymmetric: true) }
        try Client(rig, .newest).upload(changeset, version: 2, base: 0)
        #expect(try Client(rig, Release(core: "12.0.0", version: 4)).downloaded().errors.map { $0.words[1] } == ["225"])
        for release in [Release(core: "12.1.0", version: 6), .newest] {
            let (entries, errors) = try Client(rig, release).downloaded()
            #expect(entries.count == 1 && errors == [], "\(release)")
        }
    }

    // MARK: What does not enter

    @Test(arguments: [Release.newest, Release(core: "12.0.0", version: 4)])
    func anErasedColumnIsRefusedWithoutAReset(release: Release) throws {
        let rig = WireRig()
        let client = try Client(rig, release)
        var graph = ObjectGraph()
        let start = try Self.write(&graph) { tx in
            try tx.addClass("T", key: "_id", .int)
            try tx.addColumn("n", .int, to: "T")
        }
        client.upload(start, version: 2, base: 0)
        #expect(try client.downloaded().errors == [])
        client.upload(try Self.write(&graph) { try $0.eraseColumn("n", of: "T") }, version: 3, base: 0)
        let error = try #require(try client.downloaded().errors.first)
        #expect(error.words[1] == "225")
        let text = Self.text(error)
        #expect(text.contains(#""action":"ApplicationBug""#) && text.contains(#""shouldClientReset":false"#))
        #expect(text.contains("T.n"))
        #expect(try Client(rig, .newest).downloaded().entries.count == 1)
    }

    @Test func nullComesBackToTheClientThatTookItOut() throws {
        let rig = WireRig()
        let client = try Client(rig, .newest)
        var graph = ObjectGraph()
        let start = try Self.write(&graph) { tx in
            try tx.addClass("T", key: "_id", .int)
            try tx.addColumn("s", .string, isNullable: true, collection: .set, to: "T")
            try tx.create("T", key: 1).set("s").insert(.null)
        }
        client.upload(start, version: 2, base: 0)
        _ = client.hear()
        let removal = try Self.write(&graph) { try $0.object("T", key: 1)?.set("s").remove(.null) }
        client.upload(removal, version: 3, base: 0)
        let (entries, errors) = try client.downloaded()
        #expect(errors == [] && entries.map(\.tag.ident) == [.server])
        var arena = ChangesetArena()
        let index = try arena.decode(try #require(entries.first).changeset, version: 1, tag: entries[0].tag)
        #expect(arena.instructions(of: index).map { arena.text(of: $0) } == ["SetInsert T[1].s Null"])
        let all = try Client(rig, .newest).downloaded().entries
        #expect(try Self.state(all, .nullErasures).contains("null"))
    }

    // MARK: Which release it is

    @Test(arguments: [
        ("RealmSync/13.27.0 (Linux) x", 11, "realm-core 13.27.0"), ("RealmSync/13.27.0", 11, "realm-core 13.27.0"),
        ("RealmSync/14.0.0-alpha.1 (x)", 11, "realm-core 14.0.0"),
        ("RealmSync/13.27.0", 14, "realm-core 14.11.0 or newer"),
        ("RealmSync/x.y.z", 14, "realm-core 14.11.0 or newer"),
        ("okhttp/4.9.0", 7, "realm-core 12.6.1 or newer, before 13.8.0"),
        ("RealmSync/99999999999999999999.1.1", 12, "realm-core 14.5.0 or newer, before 14.7.0"),
        ("", 99, "realm-core 14.11.0 or newer"),
        ("RealmSync/14.14.0 (Anabranch) notes", 14, "Anabranch, like realm-core 14.14.0"),
    ])
    func releasesAreKnownByWhatTheySay(userAgent: String, version: Int, description: String) {
        let release = ClientRelease(offering: ProtocolVersion(version), userAgent: userAgent)
        #expect(release.description == description)
    }

    @Test func defectsAreThoseOfTheRelease() {
        func defects(_ core: String?, _ version: Int) -> [ClientDefect] {
            let userAgent = core.map { "RealmSync/\($0) (x)" }
            return ClientRelease(offering: ProtocolVersion(version), userAgent: userAgent).knownDefects
        }
        #expect(defects("14.14.0", 14) == [.danglingLinks])
        #expect(defects("14.11.3", 14) == [.emptiedChangesets, .danglingLinks])
        #expect(defects(nil, 14) == [.emptiedChangesets, .danglingLinks], "it may be 14.11")
        #expect(defects("14.5.2", 12) == [.collectionsInMixed, .emptiedChangesets, .danglingLinks])
        #expect(defects("14.5.1", 12) == [.absentEntries, .collectionsInMixed, .emptiedChangesets, .danglingLinks])
        #expect(defects("13.27.0", 11) == [.absentEntries, .collectionsInMixed, .emptiedChangesets, .danglingLinks])
        #expect(Set(defects("12.0.0", 4)) == Set(ClientDefect.allCases).subtracting([.legacyErrors]))
        #expect(defects("13.7.1", 7).contains(.emptyChangesets) && !defects("13.8.0", 8).contains(.emptyChangesets))
    }
}
