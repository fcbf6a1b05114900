import AnabranchCore
import AnabranchReplica
import AnabranchTesting
import Testing

@testable import AnabranchHistory

/// The downloads of clients of older releases (`Spec/Protocol.md`, section 6.1).
@Suite struct AdaptedDownloadTests {
    private static let old = ClientCapabilities(erasesAbsentEntries: false)

    /// A dictionary d of T[1] with entries a and b, which two clients have, and an erasure of a by each of them.
    private static func erasedTwice(keepsState: Bool = true) throws -> (file: SyncedFile, clients: [MemoryClient]) {
        let file = try SyncedFile.open(in: InMemoryStore(), keepsState: keepsState)
        var clients = try file.allocateIdents(for: [nil, nil], at: 1).map { MemoryClient($0, capabilities: old) }
        try clients[0].write(at: 1) { tx in
            try tx.addClass("T", key: "_id", .int)
            try tx.addColumn("d", .int, collection: .dictionary, to: "T")
            let dictionary = try tx.create("T", key: 1).dictionary("d")
            for key in ["a", "b"] { try dictionary.set(1, for: key) }
        }
        try clients[0].upload(to: file)
        for index in clients.indices { try clients[index].download(from: file) }
        for index in clients.indices {
            try clients[index].write(at: ChangesetTime(2 + UInt64(index))) {
                try $0.object("T", key: 1)?.dictionary("d").remove("a")
            }
        }
        for index in clients.indices { try clients[index].upload(to: file) }
        return (file, clients)
    }

    private static func expectAgreement(_ file: SyncedFile, _ clients: [MemoryClient]) throws {
        let digest = try file.withState { try StateDigest(of: $0) }
        for client in clients { #expect(try StateDigest(of: client.state) == digest) }
    }

    @Test func twoErasuresOfOneEntryAreNoHarmToAnybody() throws {
        var (file, clients) = try Self.erasedTwice()
        clients.append(MemoryClient(try file.allocateIdent(), capabilities: Self.old))
        clients.append(MemoryClient(try file.allocateIdent()))
        for index in clients.indices { try clients[index].download(from: file) }
        try Self.expectAgreement(file, clients)
        var plain = MemoryClient(try file.allocateIdent(), keepsState: false)
        try plain.download(from: file)
    }

    /// With the log as it is, the same clients fail: this is what the form is for.
    @Test func withoutTheFormSuchClientsFail() throws {
        let (file, clients) = try Self.erasedTwice()
        // The older erasure is its own: the newer one reaches it, and finds nothing.
        var client = clients[0]
        let log = try file.downloads(for: client.ident).download(after: client.download, byteBudget: .max)
        #expect(throws: ReplicaError(.badDownload, "")) { try client.integrate(log) }
    }

    /// The type of today's column says nothing about that of yesterday.
    @Test func aColumnThatWasReplacedMeanwhileIsNoTrap() throws {
        var (file, clients) = try Self.erasedTwice()
        for index in clients.indices { try clients[index].download(from: file) }
        try clients[0].write(at: 9) { try $0.eraseColumn("d", of: "T") }
        try clients[0].upload(to: file)
        try clients[0].write(at: 10) { tx in
            try tx.addColumn("d", .string, collection: .dictionary, to: "T")
            try tx.object("T", key: 1)?.dictionary("d").set("x", for: "a")
            try tx.object("T", key: 1)?.dictionary("d").remove("a")
        }
        try clients[0].upload(to: file)
        clients.append(MemoryClient(try file.allocateIdent(), capabilities: Self.old))
        for index in clients.indices { try clients[index].download(from: file) }
        try Self.expectAgreement(file, clients)
    }

    /// A relay knows no types: it can only pass on what it has.
    @Test func aRelayPassesErasuresOn() throws {
        let (file, clients) = try Self.erasedTwice(keepsState: false)
        let scans = [ClientCapabilities.all, Self.old].map { file.downloads(for: clients[0].ident, $0) }
        let downloads = try scans.map { try $0.download(after: DownloadCursor(), byteBudget: .max) }
        #expect(downloads[0] == downloads[1])
    }

    /// What comes before is delivered, by whatever pieces it is asked for; then the session is over.
    @Test(arguments: [1, 200, Int.max]) func aClientReadsUpToWhatItCannotRead(byteBudget: Int) throws {
        let file = try SyncedFile.open(in: InMemoryStore(), keepsState: true)
        let reader = try file.allocateIdent()
        var writer = MemoryClient(try file.allocateIdent())
        try writer.write(at: 1) { tx in
            try tx.addClass("T", key: "_id", .int)
            try tx.addColumn("m", .null, to: "T")
            try tx.create("T", key: 1)
        }
        for number in 0..<5 as Range<Int64> {
            try writer.write(at: 2) { try $0.object("T", key: 1)?.set("m", to: .int(number)) }
        }
        try writer.write(at: 3) { try $0.object("T", key: 1)?.set("m", to: .dictionary) }
        try writer.write(at: 4) { try $0.object("T", key: 1)?.set("m", to: 7) }
        try writer.upload(to: file)
        let scan = file.downloads(for: reader.ident, ClientCapabilities(readsCollectionsInMixed: false))
        var cursor = DownloadCursor()
        var versions: [ServerVersion] = []
        let error = #expect(throws: HistoryError.self) {
            while true {
                let download = try scan.download(after: cursor, byteBudget: byteBudget)
                #expect(download.progress.cursor.serverVersion > cursor.serverVersion)
                #expect(download.progress.latest.version == 8)
                cursor = download.progress.cursor
                versions += download.changesets.map(\.cursor.serverVersion)
            }
        }
        #expect(error?.code == .clientTooOld && error?.reason.contains("update the app") == true)
        #expect(versions == [1, 2, 3, 4, 5, 6])
    }
}
