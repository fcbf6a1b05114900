import AnabranchCore
import AnabranchServer
import AnabranchSimperium
import AnabranchTestClient
import Testing

@testable import AnabranchSimperiumWire

/// The class of a bucket of the form `typed`, with a property of every kind, as a client of Realm's wire makes it.
enum TypedClasses {
    static func add(to tx: WriteTransaction) throws {
        try tx.addEmbeddedClass("place")
        try tx.addColumn("x", .double, to: "place")
        try tx.addColumn("name", .string, isNullable: true, to: "place")
        try tx.addColumn("visits", .int, to: "place")
        try tx.addClass("tag", key: "_id", .int)
        try tx.addClass("note", key: "_id", .string)
        for (name, type, isNullable) in [
            ("t", .string, false), ("s", .string, true), ("n", .int, false), ("m", .int, true), ("yes", .bool, false),
            ("r", .double, false), ("f", .float, false), ("price", .decimal, true), ("at", .timestamp, true),
            ("oid", .objectID, true), ("uuid", .uuid, true), ("data", .binary, true), ("any", .null, true),
        ] as [(String, PayloadType, Bool)] {
            try tx.addColumn(name, type, isNullable: isNullable, to: "note")
        }
        try tx.addColumn("list", .int, collection: .list, to: "note")
        try tx.addColumn("set", .string, isNullable: true, collection: .set, to: "note")
        try tx.addColumn("dict", .int, isNullable: true, collection: .dictionary, to: "note")
        try tx.addLink("place", to: "place", of: "note")
        try tx.addLink("places", to: "place", collection: .list, of: "note")
        try tx.addLink("spots", to: "place", collection: .dictionary, of: "note")
        try tx.addLink("other", to: "note", of: "note")
        try tx.addLink("others", to: "note", collection: .list, of: "note")
        try tx.addLink("tag", to: "tag", of: "note")
    }

    /// The entity of a new object.
    static let initial = """
        {"t":"","n":0,"yes":false,"r":0,"f":0,"list":[],"set":[],"dict":{},"places":[],"spots":{},"others":[]}
        """

    /// A value of each kind.
    static let full = """
        {"t":"text","s":"more","n":-3,"m":4,"yes":true,"r":1.5,"f":0.1,"price":"12.50","at":"2024-02-29T12:00:00.000Z",
        "oid":"0123456789abcdef01234567","uuid":"00112233-4455-6677-8899-aabbccddeeff","data":"AP8=",
        "any":{"x.y":[1,"z",{"$a":null}]},"list":[1,2,2],"set":["a","b"],"dict":{"a.b":1,"$c":2,"50%":3,"":null},
        "place":{"x":2,"name":"here","visits":1},"places":[{"x":1,"visits":0},{"x":2.5,"name":"there","visits":2}],
        "spots":{"at.home":{"x":-1,"visits":0}},"other":"target","others":["target","target"],"tag":"7"}
        """
}

extension JSONValue {
    /// The JSON of a text, with its numbers in their one form.
    static func text(_ text: String) throws -> JSONValue { try JSONValue(parsing: text.utf8).normalized() }

    /// The entity of a listing with one.
    var onlyEntity: JSONValue? { self["index"]?.array?.first?["d"] }
}

extension WireRig {
    /// Runs a server whose buckets have the form `typed`, with a client of each wire that listen to the bucket `note`.
    /// Its class has an object `target`, and that of tags one with the key 7.
    static func runTyped(
        _ change: (inout SimperiumSettings) -> Void = { _ in },
        _ body: (WireRig, AppServices.PlainLogin, Conversation, TestClient) async throws -> Void
    ) async throws {
        try await run {
            $0.apps[app]?.buckets["note"] = BucketSettings()
            $0.apps[app]?.buckets["note"]?.form = .typed
            change(&$0)
        } _: { rig in
            let login = try await rig.logIn()
            let realm = try await rig.realmClient(login.user)
            try await realm.write { tx in
                try TypedClasses.add(to: tx)
                try tx.create("note", key: "target")
                try tx.create("tag", key: 7)
            }
            try await realm.upload()
            let one = try await Conversation(rig, login, library: "other")
            try await one.list()
            try await body(rig, login, one, realm)
        }
    }
}

extension Conversation {
    /// Makes an entity of a JSON text, and returns the members that it has then.
    func create(_ key: String, _ text: String) async throws -> JSONValue? {
        let change = try await make("M", key, ["d": .text(text)])
        #expect(change["ev"] == 1, "\(change.encoded)")
        return try await entity(key)
    }

    /// The members of an entity, by a listing.
    func entity(_ key: String) async throws -> JSONValue? {
        try await list()["index"]?.array?.first { $0["id"] == .string(key) }?["d"]
    }

    /// Changes an entity by a diff that is a JSON text.
    @discardableResult
    func edit(_ key: String, at version: Int64, _ diff: String) async throws -> JSONValue {
        try await make("M", key, ["v": .text(diff), "sv": .integer(version)])
    }
}
