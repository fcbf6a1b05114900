import AnabranchHistory
import AnabranchProtocol
import AnabranchTesting
import Testing

@testable import AnabranchCore
@testable import AnabranchReplica

/// The effect of a client reset on links (`Spec/Replica.md`, section 4): none leads to nothing, and none is lost whose
/// object is there in the end.
@Suite struct LinkRecoveryTests {
    private static let link = Payload.link(className: Array("N".utf8), key: 4)

    /// Where a link is put.
    enum Place: String, CaseIterable, CustomTestStringConvertible {
        case single, list, set, dictionary, mixed, mixedList, nested, embedded, embeddedList

        var testDescription: String { rawValue }

        func put(_ link: Payload, _ tx: WriteTransaction) throws {
            let object = try #require(try tx.object("N", key: 3))
            switch self {
            case .single: object["link"] = link
            case .list: try object.list("links").append(link)
            case .set: try object.set("set").insert(link)
            case .dictionary: try object.dictionary("dictionary").set(link, for: "k")
            case .mixed: object["any"] = link
            case .mixedList: try object.list("mixed").append(link)
            case .nested:
                object["any"] = .list
                try object.list("any").append(link)
            case .embedded: try object.createObject("one")["link"] = link
            case .embeddedList: try object.list("many").appendObject()["link"] = link
            }
        }

        func links(_ state: ObjectGraph) throws -> [Payload] {
            try state.read { tx in
                guard let object = try tx.object("N", key: 3) else { return [] }
                let found: [Payload?] =
                    switch self {
                    case .single: [object["link"]]
                    case .list: try object.list("links").values
                    case .set: try object.set("set").values
                    case .dictionary: [try object.dictionary("dictionary").value(for: "k")]
                    case .mixed: [object["any"]]
                    case .mixedList: try object.list("mixed").values
                    case .nested: object["any"] == .list ? try object.list("any").values : []
                    case .embedded: [try object.object("one")?["link"]]
                    case .embeddedList:
                        try (0..<object.list("many").count).map { try object.list("many").object(at: $0)["link"] }
                    }
                return found.compactMap { $0 == .null ? nil : $0 }
            }
        }
    }

    private static func declare(_ tx: WriteTransaction) throws {
        try tx.addClass("N", key: "_id", .int)
        try tx.addEmbeddedClass("E")
        try tx.addLink("link", to: "N", of: "E")
        try tx.addColumn("t", .string, isNullable: true, to: "N")
        try tx.addColumn("any", .null, to: "N")
        try tx.addColumn("mixed", .null, collection: .list, to: "N")
        try tx.addLink("link", to: "N", of: "N")
        try tx.addLink("links", to: "N", collection: .list, of: "N")
        try tx.addLink("set", to: "N", collection: .set, of: "N")
        try tx.addLink("dictionary", to: "N", collection: .dictionary, of: "N")
        try tx.addLink("one", to: "E", of: "N")
        try tx.addLink("many", to: "E", collection: .list, of: "N")
        try tx.create("N", key: 3)
    }

    /// A replica that has what the server has.
    private static func begin(
        _ mode: SyncMode, hasTarget: Bool
    ) throws -> (RecoveryServer, Replica<MemoryReplicaStore>) {
        let server = try RecoveryServer(mode) { tx in
            try declare(tx)
            if hasTarget { try tx.create("N", key: 4) }
        }
        var replica = try server.replica()
        try server.exchange(&replica)
        return (server, replica)
    }

    @Test("a link that is recorded before its object is there afterwards", arguments: Place.allCases, SyncMode.allCases)
    func beforeItsObject(place: Place, mode: SyncMode) throws {
        let (server, begun) = try Self.begin(mode, hasTarget: false)
        var replica = begun
        // As an import has it: objects come in the order of their keys.
        try replica.write(at: 2) { tx in
            tx.linksMayDangle = true
            try place.put(Self.link, tx)
            tx.linksMayDangle = false
            try tx.create("N", key: 4, ["t": "new"])
        }
        try Self.expect([Self.link], at: place, behindResetOf: replica, server, dropped: 0)
    }

    @Test(
        "a link whose object is erased by others, and created again here later, stays", arguments: Place.allCases,
        SyncMode.allCases)
    func createdAgain(place: Place, mode: SyncMode) throws {
        let (server, begun) = try Self.begin(mode, hasTarget: true)
        var replica = begun
        try replica.write(at: 2) { tx in try place.put(Self.link, tx) }
        try replica.write(at: 3) { tx in try tx.delete(try #require(try tx.object("N", key: 4))) }
        try replica.write(at: 4) { tx in
            try tx.create("N", key: 4)
            try place.put(Self.link, tx)
        }
        let before = try place.links(replica.state)
        try Self.eraseTarget(server)
        try Self.expect(before, at: place, behindResetOf: replica, server, dropped: nil)
    }

    @Test("a link to what is gone is left out, and counted", arguments: Place.allCases, SyncMode.allCases)
    func toWhatIsGone(place: Place, mode: SyncMode) throws {
        let (server, begun) = try Self.begin(mode, hasTarget: true)
        var replica = begun
        try replica.write(at: 2) { tx in try place.put(Self.link, tx) }
        try Self.eraseTarget(server)
        try Self.expect([], at: place, behindResetOf: replica, server, dropped: 1)
    }

    @Test("objects that link to each other come back", arguments: SyncMode.allCases)
    func cycles(mode: SyncMode) throws {
        let (server, begun) = try Self.begin(mode, hasTarget: false)
        var replica = begun
        try replica.write(at: 2) { tx in
            tx.linksMayDangle = true
            for (key, other) in [(7, 8), (8, 9), (9, 7)] as [(Int64, Int64)] {
                try tx.create("N", key: .int(key), ["link": .link(className: Array("N".utf8), key: .int(other))])
            }
        }
        let (fresh, recovery) = try server.reset(replica)
        #expect(recovery.droppedChanges == 0)
        #expect(try fresh.state.exported() == replica.state.exported())
    }

    private static func eraseTarget(_ server: RecoveryServer) throws {
        var other = try server.replica()
        try server.exchange(&other)
        try other.write(at: 3) { tx in try tx.delete(try #require(try tx.object("N", key: 4))) }
        try server.exchange(&other)
    }

    private static func expect(
        _ links: [Payload], at place: Place, behindResetOf replica: Replica<MemoryReplicaStore>,
        _ server: RecoveryServer, dropped: Int?
    ) throws {
        let (made, recovery) = try server.reset(replica)
        var fresh = made
        #expect(try fresh.danglingUploads() == [])
        #expect(try place.links(fresh.state) == links)
        if let dropped { #expect(recovery.droppedChanges == dropped) }
        // Nothing that leads nowhere is left in a collection either.
        let count = try fresh.state.read { tx in
            let object = try #require(try tx.object("N", key: 3))
            return try object.list("links").count + object.set("set").count + object.list("mixed").count
        }
        #expect(count == ([.list, .set, .mixedList].contains(place) ? links.count : 0))
        var other = try server.replica()
        try server.exchange(&fresh)
        try server.exchange(&other)
        #expect(try place.links(other.state) == links)
    }
}

extension ObjectGraph {
    fileprivate func exported() throws -> [String] {
        try read { tx in try tx.objects("N").map { "\($0.key ?? .null) \($0["link"])" } }
    }
}
