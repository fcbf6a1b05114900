import AnabranchClient
import AnabranchCore
import AnabranchProtocol
import AnabranchReplica
import Foundation
import Testing

/// Replicas and the real server, in both kinds of sync: what one of them writes, all of them have.
@Suite(.timeLimit(.minutes(30))) struct SyncConvergenceTests {
    @Test(arguments: [SyncMode.partition, .flexible])
    func whatIsWrittenHereAndThereIsEverywhere(_ mode: SyncMode) async throws {
        try await withServer { _, port async throws in
            try await withFolder { path async throws in
                let one = try Device(path("one"), port: port, mode), two = try Device(path("two"), port: port, mode)
                try await one.connect()
                try await two.connect()
                try await one.settle()
                try await two.settle()
                for number in 1...10 {
                    try await one.put(number)
                    try await two.put(-number)
                    try await one.count()
                    try await two.count()
                }
                try await one.settle()
                try await two.settle()
                try await one.settle()
                #expect(try await one.number() == .int(20))
                #expect(try await one.tasks.count == 21)
                #expect(try await one.state == two.state)
                #expect(await one.replica.unacknowledged.changesets == 0)
                try await one.close()
                try await two.close()
            }
        }
    }

    @Test(arguments: [SyncMode.partition, .flexible])
    func whatIsWrittenOffLineIsUploadedLater(_ mode: SyncMode) async throws {
        try await withServer { _, port async throws in
            try await withFolder { path async throws in
                var one = try Device(path("one"), port: port, mode)
                for number in 1...5 { try await one.put(number) }
                #expect(await one.replica.syncStatus == .offline)
                #expect(await one.replica.unacknowledged.changesets == (mode == .flexible ? 6 : 5))
                // Another process goes on.
                try await one.close()
                one = try Device(path("one"), port: port, mode)
                try await one.connect()
                try await one.settle()
                let two = try Device(path("two"), port: port, mode)
                try await two.connect()
                try await two.settle()
                #expect(try await two.tasks == [1, 2, 3, 4, 5])
                try await one.close()
                try await two.close()
            }
        }
    }

    /// Every fifth transaction is too large to be sent with others.
    @Test(arguments: [SyncMode.partition, .flexible])
    func aConnectionMayBreakBehindAnyMessage(_ mode: SyncMode) async throws {
        try await withServer { _, port async throws in
            try await withFolder { path async throws in
                let ends = [BreakingTransport(), BreakingTransport()]
                let devices = try ["one", "two"].enumerated().map { index, name in
                    try Device(path(name), port: port, mode, transport: ends[index])
                }
                let timeouts = await devices.asyncMap { device in
                    let events = await device.replica.events()
                    return Task {
                        for await event in events {
                            if event.isOffline == true { await device.client.connectNow() }
                            if let undone = event.undone { Issue.record("undone: \(undone)") }
                        }
                    }
                }
                for (index, device) in devices.enumerated() {
                    for number in 1...12 {
                        let text = String(repeating: "x", count: number.isMultiple(of: 5) ? 150_000 : 1)
                        try await device.put(number * 2 + index, text)
                        // A bootstrap replaces numbers that another device has counted without a connection.
                        try await device.count(.int(Int64(100 + index)))
                    }
                    try await device.connect()
                }
                for device in devices + devices { try await device.settle() }
                #expect(try await devices[0].tasks.count == 26)
                // Everything has taken effect, and nothing twice.
                for key in [PrimaryKey.int(100), .int(101)] {
                    #expect(try await devices[0].number(key) == .int(12))
                }
                #expect(try await devices[0].state == devices[1].state)
                #expect(ends.allSatisfy { $0.connections > 5 })
                for task in timeouts { task.cancel() }
                for device in devices { try await device.close() }
            }
        }
    }
}

extension Array {
    func asyncMap<Value>(_ body: (Element) async throws -> Value) async rethrows -> [Value] {
        var values: [Value] = []
        for element in self { values.append(try await body(element)) }
        return values
    }
}
