import AnabranchCore
import AnabranchServer
import AnabranchTesting
import Foundation
import NIOHTTP1

@testable import AnabranchSimulation
@testable import AnabranchSimperiumWire

extension World {
    func step(_ server: WorldServer) async throws {
        if !ledger.isEternal { clock.advance(by: UInt64(random.below(2))) }
        let client = random.pick(clients)
        switch random.below(21) {
        case 0: try await end(client)
        case 1...3: try await connect(client, to: server)
        case 4: try await delete(with: client, on: server)
        case 5...9: try await edit(with: client, on: server)
        case 10...13:
            let countMax = random.isOne(in: 2) ? Int.max : 1 + random.below(3)
            tell("\(client.name) reads \(countMax == .max ? "everything" : "\(countMax)")")
            await client.read(atMost: countMax)
            try await settle(server, after: client)
        case 14...15:
            tell("\(client.name) saves; everybody waits for answers")
            client.save()
            for client in clients {
                await client.waitLong()
                try await settle(server, after: client)
            }
        case 16...17: try await stepOfRealm(server)
        case 18: try await request(server)
        case 19: try await writeAtHead(server)
        default: try await stepOfTime(server)
        }
    }

    private func connect(_ client: ModelClient, to server: WorldServer) async throws {
        let catchesUp = !random.isOne(in: 3)
        tell("\(client.name) connects\(catchesUp ? ", and reads until it has everything" : "")")
        try await client.connect(to: server)
        try await settle(server, after: client)
        guard catchesUp else { return }
        for _ in 0..<Self.readingsMax where client.hasUnread {
            await client.read()
            try await settle(server, after: client)
        }
    }

    /// The most readings of a client that catches up: a few pages, and what it asks for then.
    private static let readingsMax = 10

    private func end(_ client: ModelClient) async throws {
        let isCrash = random.isOne(in: 3)
        tell("\(client.name) \(isCrash ? "crashes" : "is cut off")")
        ledger.count(.cut)
        if isCrash { await client.crash() } else { await client.cut() }
        if !isCrash, random.isOne(in: 3) { client.goBack() }
    }

    // MARK: Applications

    private func edit(with client: ModelClient, on server: WorldServer) async throws {
        // Sometimes several at once, so that they are decided on together.
        for _ in 0..<(random.isOne(in: 4) ? 3 : 1) {
            let key = someKey(), body = edited(client.kept.copies[key])
            tell("\(client.name) has \(key) = \(JSONValue.object(body).encoded)")
            await client.edit(key, body)
        }
        if clients.contains(where: { $0 !== client && $0.isBetweenPages }) { ledger.count(.listedBesideChanges) }
        try await settle(server, after: client)
    }

    private func delete(with client: ModelClient, on server: WorldServer) async throws {
        if client.kind == .ios, random.isOne(in: 3) {
            tell("\(client.name) empties the bucket")
            await client.empty()
        } else {
            let key = someKey()
            tell("\(client.name) deletes \(key)")
            await client.delete(key)
        }
        try await settle(server, after: client)
    }

    // MARK: Others

    private func randomEdit() -> RealmDevice.Edit {
        switch random.below(8) {
        case 0...1: .delete
        case 2...4: .setText("r\(random.below(100))")
        case 5: .setNumber(Int64(random.below(5)))
        case 6: .eraseNumber
        default: .setNested("{\"a\":\(random.below(3))}")
        }
    }

    func stepOfRealm(_ server: WorldServer) async throws {
        guard !devices.isEmpty else { return }
        let device = random.pick(devices)
        switch random.below(8) {
        case 0:
            tell("\(device.name) is cut off")
            await device.disconnect()
        case 1 where random.isOne(in: 4):
            tell("\(device.name) begins anew")
            await device.reset()
        case 1...4:
            let edit = randomEdit(), key = someKey()
            tell("\(device.name): \(edit) \(key)")
            try await device.write(edit, to: key)
        default:
            let downloads = random.isOne(in: 2)
            tell("\(device.name) uploads\(downloads ? " and downloads" : "")")
            try await device.sync(downloads: downloads, on: server.port)
        }
        try await settle(server)
    }

    private func writeAtHead(_ server: WorldServer) async throws {
        let edit = randomEdit(), key = someKey()
        tell("the server: \(edit) \(key)")
        ledger.count(.writtenByServer)
        try await write(edit, to: key, on: server)
    }

    func write(_ edit: RealmDevice.Edit, to key: String, on server: WorldServer) async throws {
        let now = Date(timeIntervalSince1970: Double(clock.now))
        try await server.server.write(to: WorldServer.path, at: now) { tx in
            try RealmDevice.carryOut(edit, key, tx)
        }
        try await settle(server)
    }

    /// As `Simperium3` does it.
    private func request(_ server: WorldServer) async throws {
        let key = someKey(), version = random.isOne(in: 3) ? UInt64(1 + random.below(5)) : nil
        let target = DataPath.Target.entity(key: key, version: version)
        let ident = "http-\(random.below(30))", status: UInt
        if random.isOne(in: 4) {
            tell("by HTTP: delete \(key), \(ident)")
            status = try await server.respond(.DELETE, target, query: "clientid=http&ccid=\(ident)")
        } else {
            let replaces = random.isOne(in: 4)
            let body = "{\"\(Self.mark)\":1,\"h\":\(random.below(9))}"
            tell("by HTTP: \(key) \(version.map { "at \($0) " } ?? "")\(replaces ? "=" : "+") \(body), \(ident)")
            let query = "clientid=http&ccid=\(ident)\(replaces ? "&replace=1" : "")"
            status = try await server.respond(.POST, target, query: query, body: body)
        }
        ledger.count(status == 200 ? .writtenByHTTP : .refusedByHTTP)
        try await settle(server)
    }

    private func stepOfTime(_ server: WorldServer) async throws {
        let seconds = random.pick([11, 11, 601, 86_400, Self.forgettingSeconds])
        // More than once, and Realm clients that were away expire.
        guard !ledger.isEternal, seconds < Self.forgettingSeconds || random.isOne(in: 4) else { return }
        tell("\(seconds) seconds pass")
        clock.advance(by: seconds)
        guard seconds >= 86_400 else { return }
        ledger.count(.daysPassed)
        for client in clients { client.watch.passOverListing() }
        guard seconds == Self.forgettingSeconds else { return }
        ledger.count(.forgotten)
        ledger.forgetRequests(through: try await server.file?.read { $0.door.end } ?? .start)
        try stores.first?.maintain(at: clock.now) { true }
    }
}
