import AnabranchCore
import AnabranchHistory
import AnabranchSimulation
import AnabranchTesting
import Synchronization
import Testing

@testable import AnabranchProtocol
@testable import AnabranchServer

/// Clients of flexible sync, of several releases, at a whole server (`Spec/FlexibleSync.md`).
@Suite(.timeLimit(.minutes(30))) struct FlexibleServerTests {
    private static let releases: [(CoreVersion, Int)] = [
        (CoreVersion(12, 0), 4), (CoreVersion(13, 1), 7), (CoreVersion(13, 26), 11), (CoreVersion(14, 5), 12),
        (CoreVersion(14, 14), 14),
    ]

    private static func settings() -> ServerSettings {
        var settings = ServerSettings.small
        settings.flexibleApps = ["pets"]
        return settings
    }

    /// A client with all dogs, of which there are none yet.
    private static func writer(at server: RunningServer) async throws -> FlexibleDevice {
        var writer = FlexibleDevice()
        try await writer.connect(port: server.port)
        try await writer.settle()
        try writer.client.write(at: 1) { try $0.addDogs() }
        _ = try writer.client.subscribe(#"{"Dog":"(TRUEPREDICATE)"}"#)
        try await writer.settle()
        return writer
    }

    @Test(arguments: releases) func eachClientHasWhatItAsksFor(_ release: CoreVersion, _ version: Int) async throws {
        try await withServer(settings: Self.settings()) { server in
            var writer = try await Self.writer(at: server), reader = FlexibleDevice(release, version)
            try writer.client.write(at: 2) { transaction in
                try transaction.addDog(1, "Rex", age: 2)
                try transaction.addDog(2, "Ada", age: 5)
            }
            try await writer.settle()

            try await reader.connect(port: server.port)
            try await reader.settle()
            #expect(try reader.dogs == [])
            _ = try reader.client.subscribe(#"{"Dog":"(age > 3)"}"#)
            try await reader.settle()
            #expect(try reader.dogs == ["Ada"])

            // One comes into view, and the other leaves it.
            try writer.client.write(at: 3) { transaction in
                try transaction.object("Dog", key: 1)?.set("age", to: .int(4))
                try transaction.object("Dog", key: 2)?.set("age", to: .int(1))
            }
            try await writer.settle()
            try await reader.settle()
            #expect(try reader.dogs == ["Rex"])

            // What the reader may not write is undone; the rest of the transaction stays.
            try reader.client.write(at: 4) { transaction in
                try transaction.addDog(3, "Pup", age: 0)
                try transaction.addDog(4, "Old", age: 9)
            }
            try await reader.settle()
            try await reader.settle()
            #expect(try reader.dogs == ["Rex", "Old"])
            let told = reader.client.compensations.flatMap { $0.rejection?.updates ?? [] }
            #expect(told.map(\.key) == (version >= 5 ? [3] : []))
            try await writer.settle()
            #expect(try writer.dogs == ["Rex", "Ada", "Old"])

            // Offline it asks for something else, and writes.
            reader.disconnect()
            try reader.client.write(at: 5) { try $0.object("Dog", key: 4)?.set("age", to: .int(10)) }
            _ = try reader.client.subscribe(#"{"Dog":"(name == \"Ada\")"}"#)
            try await reader.connect(port: server.port)
            try await reader.settle()
            #expect(try reader.dogs == ["Ada"])
            try await writer.settle()
            let age = try writer.client.file?.state.read { try $0.object("Dog", key: 4)?.value("age") }
            #expect(age == .int(10))
        }
    }

    @Test func aSetThatCannotBeServedIsRefusedAndTheOldOneStays() async throws {
        try await withServer(settings: Self.settings()) { server in
            var device = FlexibleDevice(CoreVersion(14, 14), 14)
            try await device.connect(port: server.port)
            try await device.settle()
            try device.client.write(at: 1) { try $0.addDogs() }
            _ = try device.client.subscribe(#"{"Dog":"(age > 3)"}"#)
            try await device.settle()
            try device.client.write(at: 2) { try $0.addDog(2, "Ada", age: 5) }
            let refused = try device.client.subscribe(#"{"Dog":"(color == \"red\")"}"#)
            try await device.settle()
            let state = try #require(device.client.subscriptions.state(of: refused))
            #expect("\(state)".contains("no property"))
            #expect(try device.dogs == ["Ada"])
        }
    }

    @Test func whatNobodyNeedsGoesWhileClientsAreConnected() async throws {
        var settings = Self.settings()
        settings.history.sealEntries = 4
        settings.history.generationBytes = 0
        try await withServer(settings: settings) { server in
            var writer = try await Self.writer(at: server), reader = FlexibleDevice(CoreVersion(13, 1), 7)
            try await reader.connect(port: server.port)
            _ = try reader.client.subscribe(#"{"Dog":"(age > 3)"}"#)
            try await reader.settle()
            for number in 1...20 {
                try writer.client.write(at: ChangesetTime(rawValue: UInt64(number) + 1)) {
                    try $0.addDog(Int64(number), "Dog \(number)", age: Int64(number % 5))
                }
                try await writer.settle()
                try await reader.settle()
            }
            let files = try #require(server.server.files.withLock { $0 }), path = VirtualPath("pets")
            let report = try await files.maintain(path)
            #expect(report.generationsMade == 0)
            let base = try await files.run(on: path) { try $0.openedSessions().file.head.baseVersion }
            #expect(base > 10)
            try writer.client.write(at: 30) { try $0.object("Dog", key: 4)?.set("age", to: .int(0)) }
            try await writer.settle()
            try await reader.settle()
            #expect(try reader.dogs.count == 3)
        }
    }

    /// IDENT brings the set, however long it is.
    @Test func aLongSetIsNoHindranceToComingBack() async throws {
        try await withServer(settings: Self.settings()) { server in
            var device = FlexibleDevice()
            try await device.connect(port: server.port)
            try await device.settle()
            try device.client.write(at: 1) { try $0.addDogs() }
            let names = (0..<4_000).map { #"\"a dog with a rather long name, of number \#($0)\""# }
            let set = try device.client.subscribe(#"{"Dog":"name IN {\#(names.joined(separator: ", "))}"}"#)
            try await device.settle()
            #expect(device.client.subscriptions.active == set)
            device.disconnect()
            try device.client.write(at: 2) { try $0.addDog(7, "a dog with a rather long name, of number 7", age: 1) }
            try await device.connect(port: server.port)
            try await device.settle()
            #expect(try device.dogs == ["a dog with a rather long name, of number 7"])
        }
    }

    /// A download that is too long for one message comes in parts, and those of a lost connection are dropped before
    /// others come.
    @Test(arguments: releases) func aLongBootstrapCanBeInterrupted(
        _ release: CoreVersion, _ version: Int
    ) async throws {
        try await withServer(settings: Self.settings()) { server in
            var writer = try await Self.writer(at: server), reader = FlexibleDevice(release, version)
            try writer.client.write(at: 2) { transaction in
                for key in 0..<20 {
                    try transaction.addDog(Int64(key), String(repeating: "x", count: 500_000), age: 4)
                }
            }
            try await writer.settle()

            try await reader.connect(port: server.port)
            try await reader.settle()
            let set = try reader.client.subscribe(#"{"Dog":"(age > 3)"}"#)
            try await reader.receiveParts()
            reader.disconnect()
            try writer.client.write(at: 3) { try $0.object("Dog", key: 7)?.set("age", to: .int(1)) }
            try await writer.settle()
            try await reader.connect(port: server.port)
            try await reader.settle()
            #expect(reader.client.lastError?.code == .sessionClosed)
            #expect(try reader.dogs.count == 19)
            #expect(reader.client.subscriptions.active == set)
        }
    }

    @Test func anAppHasOneKindOfSync() async throws {
        try await withServer(settings: Self.settings()) { server in
            let partition = try await WebSocketClient.open(
                port: server.port, path: "/api/client/v2.0/app/pets/realm-sync")
            #expect(try await partition.message().description.contains("113"))
            let flexible = try await WebSocketClient.open(
                port: server.port, path: "/api/client/v2.0/app/others/realm-sync",
                offer: "com.mongodb.realm-query-sync#14")
            #expect(try await flexible.message().description.contains("114"))
        }
    }

    private static func development() -> ServerSettings {
        var settings = ServerSettings.small
        settings.takesModeOfFirstClient = true
        return settings
    }

    @Test func inDevelopmentTheFirstChangeDecides() async throws {
        try await withServer(settings: Self.development()) { server in
            func open(_ app: String, _ name: String) async throws -> WebSocketClient {
                try await WebSocketClient.open(
                    port: server.port, path: "/api/client/v2.0/app/\(app)/realm-sync", offer: "com.mongodb.\(name)#14")
            }
            var device = try await Self.writer(at: server)
            try await device.settle()
            #expect(try await open("pets", "realm-sync").message().description.contains("113"))
            _ = try await server.server.write(to: VirtualPath("others/\"x\"")) { try $0.addDogs() }
            #expect(try await open("others", "realm-query-sync").message().description.contains("114"))
        }
    }

    /// Neither a client that came, nor its queries of classes that are not there.
    @Test func inDevelopmentWhatIsRefusedDecidesNothing() async throws {
        try await withServer(settings: Self.development()) { server in
            var device = FlexibleDevice()
            try await device.connect(port: server.port)
            _ = try device.client.subscribe(#"{"None":"(TRUEPREDICATE)"}"#)
            try await device.settle()
            device.disconnect()
            let partition = try await WebSocketClient.open(
                port: server.port, path: "/api/client/v2.0/app/pets/realm-sync", offer: "com.mongodb.realm-sync#14")
            try await partition.send("bind 1 1 0 1 0\nx")
            #expect(try await partition.message().kind == "ident")
        }
    }

    @Test func inDevelopmentADeletedFileReleasesItsApp() async throws {
        try await withServer(settings: Self.development()) { server in
            var writer = try await Self.writer(at: server)
            writer.disconnect()
            #expect(try await server.server.delete(VirtualPath("pets")))
            _ = try await server.server.write(to: VirtualPath("pets/\"x\"")) { try $0.addDogs() }
            let flexible = try await WebSocketClient.open(
                port: server.port, path: "/api/client/v2.0/app/pets/realm-sync",
                offer: "com.mongodb.realm-query-sync#14")
            #expect(try await flexible.message().description.contains("114"))
        }
    }

    /// By the files that have changes.
    @Test func theStoreRemembersHowAnAppSyncs() throws {
        let store = InMemoryStore()
        for path in ["pets", "others/\"x\"", "empty/", "new/\"x\""] {
            let file = try SyncedFile(path: VirtualPath(path), store: store)
            _ = try file.allocateIdents(for: [nil], at: 1)
            if !path.hasPrefix("new") { _ = try file.write(idempotencyKey: nil, at: 1) { try $0.addDogs() } }
        }
        let modes = AppModes(Self.development(), store: store, logger: .quiet)
        #expect(modes.mode(ofApp: "pets") == .flexible)
        #expect(modes.mode(ofApp: "others") == .partition && modes.mode(ofApp: "empty") == .partition)
        #expect(modes.mode(ofApp: "new") == nil)
        #expect(modes.isFlexible(VirtualPath("new")) && modes.isFlexible(VirtualPath("pets")))
        #expect(!modes.isFlexible(VirtualPath("pets/")) && !modes.isFlexible(VirtualPath("others")))
        modes.decide(by: VirtualPath("new/\"x\""))
        modes.decide(by: VirtualPath("new"))
        #expect(modes.mode(ofApp: "new") == .partition && !modes.isFlexible(VirtualPath("new")))
        modes.forget(VirtualPath("new/\"x\""))
        #expect(modes.mode(ofApp: "new") == nil)
    }
}
