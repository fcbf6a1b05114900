import AnabranchCore
import AnabranchHistory
import AnabranchSimulation
import AnabranchTesting
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

    @Test(arguments: releases) func eachClientHasWhatItAsksFor(_ release: CoreVersion, _ version: Int) async throws {
        try await withServer(settings: Self.settings()) { server in
            var writer = FlexibleDevice(CoreVersion(14, 14), 14), reader = FlexibleDevice(release, version)
            try await writer.connect(port: server.port)
            try await writer.settle()
            try writer.client.write(at: 1) { try $0.addDogs() }
            _ = try writer.client.subscribe(#"{"Dog":"(TRUEPREDICATE)"}"#)
            try await writer.settle()
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

            // Off line it asks for something else, and writes.
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
}
