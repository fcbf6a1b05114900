import AnabranchCore
import AnabranchProtocol
import AnabranchTestClient

@testable import AnabranchSimperiumWire

/// A Realm client in a random world: of one release, or our own, with a clock that may be wrong.
final class RealmDevice {
    enum Edit: Sendable, Equatable {
        case delete
        case setText(String)
        case setNumber(Int64)
        case eraseNumber
        case setNested(String)
    }

    /// The releases, and our own client.
    static let releases: [ToldRelease] = [
        ToldRelease(core: "12.0.0", version: ProtocolVersion(4)),
        ToldRelease(core: "13.5.0", version: ProtocolVersion(7)),
        ToldRelease(core: "13.27.0", version: ProtocolVersion(11)),
        ToldRelease(core: "14.14.0", version: ProtocolVersion(14)),
        own,
    ]

    private static var own: ToldRelease {
        var release = ToldRelease()
        release.userAgent = "RealmSync/14.14.0 (Anabranch) test"
        return release
    }

    let name: String
    private let client: TestClient
    private let clock: WireRig.Clock
    /// By how much its clock is ahead, in seconds.
    private let secondsAhead: Double
    private let ledger: WorldLedger

    init(_ release: ToldRelease, _ clock: WireRig.Clock, secondsAhead: Double, _ ledger: WorldLedger) {
        name = release.userAgent
        client = TestClient(
            app: WireRig.app, partition: SimperiumWire.partition(of: WorldServer.user), release: release)
        self.clock = clock
        self.secondsAhead = secondsAhead
        self.ledger = ledger
    }

    func connect(to port: Int) async throws {
        guard await !client.isConnected else { return }
        try await client.connect(to: "ws://127.0.0.1:\(port)", token: "any")
    }

    func disconnect() async { await client.disconnect() }

    /// Begins anew, without what was not uploaded.
    func reset() async {
        ledger.count(.realmReset)
        await client.reset()
    }

    /// Makes a transaction; nothing if the device was never connected.
    func write(_ edit: Edit, to key: String) async throws {
        guard await client.ident != nil else { return }
        ledger.count(edit == .delete ? .realmErased : .realmWrote)
        if secondsAhead != 0 { ledger.count(secondsAhead > 0 ? .clockAhead : .clockBehind) }
        let time = ChangesetTime(secondsSince1970: Double(clock.now) + secondsAhead)
        try await client.write(at: time) { tx in try Self.carryOut(edit, key, tx) }
    }

    static func carryOut(_ edit: Edit, _ key: String, _ tx: WriteTransaction) throws {
        try BucketForm.flat.addClass(WorldServer.bucket, tx)
        let primaryKey = PrimaryKey(stringLiteral: key)
        guard let object = try tx.object(WorldServer.bucket, key: primaryKey) else {
            if edit == .delete { return }
            // Whoever makes an entity makes all of it.
            let body = try tx.create(WorldServer.bucket, key: primaryKey).dictionary(BucketForm.body)
            try body.set(.int(1), for: World.mark)
            return try body.set(.string(Array("new".utf8)), for: "t")
        }
        let body = try object.dictionary(BucketForm.body)
        switch edit {
        case .delete: try tx.delete(object)
        case .setText(let text): try body.set(.string(Array(text.utf8)), for: "t")
        case .setNumber(let number): try body.set(.int(number), for: "n")
        case .eraseNumber: try body.remove("n")
        case .setNested(let json):
            try object.dictionary(BucketForm.nested).set(.string(Array(json.utf8)), for: "o")
        }
    }

    /// Uploads, and downloads. If the server has forgotten the client, it begins anew.
    func sync(downloads: Bool, on port: Int) async throws {
        do {
            try await connect(to: port)
            try await client.upload()
            if downloads { try await client.download() }
        } catch let error as TestClientError where error.code != nil {
            await reset()
            try await connect(to: port)
            try await client.download()
        }
    }

    func bodies(of keys: [String]) async throws -> [String: EntityBody] {
        try await client.read { tx -> [String: EntityBody] in
            let bucket = Bucket(
                number: 1, name: WorldServer.bucket, form: .flat, className: Array(WorldServer.bucket.utf8))
            var bodies: [String: EntityBody] = [:]
            for key in keys { bodies[key] = try tx.state.entity(key, of: bucket) }
            return bodies
        }
    }
}
