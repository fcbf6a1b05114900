import AnabranchCore
import AnabranchHistory
import AnabranchProtocol
import AnabranchTesting

@testable import AnabranchReplica

/// A server in memory, and replicas of its file. In flexible sync they ask for all objects, unless they say otherwise.
final class RecoveryServer {
    let mode: SyncMode
    let file: SyncedFile
    /// Nil in partition-based sync.
    private let flexible: FlexibleFile?
    /// The objects that the server has undone.
    private(set) var undone: [CompensatingWrite.Object] = []

    /// - Parameter begin: the server's first transaction.
    init(_ mode: SyncMode, _ begin: (WriteTransaction) throws -> Void) throws {
        self.mode = mode
        file = try SyncedFile(path: VirtualPath("file"), store: InMemoryStore())
        try file.write(at: 1, begin)
        flexible = mode == .flexible ? try FlexibleFile(file) : nil
    }

    /// The size of a part of a bootstrap, in bytes.
    func setPartBytes(_ bytes: Int) {
        flexible?.partBytes = bytes
        flexible?.longRangeBytes = bytes / 2
    }

    /// The state of the server.
    var state: ObjectGraph { get throws { try file.withState { $0 } } }

    /// A replica of a new client file; `subscribing` counts in flexible sync, and is everything if it is nil.
    func replica(subscribing subscriptions: [Subscription]? = nil) throws -> Replica<MemoryReplicaStore> {
        var replica = try Replica(MemoryReplicaStore())
        if mode == .flexible {
            try replica.useFlexibleSync()
            let wanted = try subscriptions ?? everything
            if !wanted.isEmpty { try replica.subscribe(wanted) }
        }
        try replica.identify(as: try file.allocateIdents(for: [nil], at: 1)[0])
        return replica
    }

    private var everything: [Subscription] {
        get throws {
            try state.classes.filter { $0.kind == .topLevel }.map {
                Subscription(String(decoding: $0.name, as: UTF8.self))
            }
        }
    }

    // MARK: Sessions

    /// Uploads everything, and downloads everything.
    func exchange(_ replica: inout Replica<MemoryReplicaStore>) throws {
        if let flexible { return try exchange(&replica, with: flexible, uploads: true) }
        while let upload = try replica.nextUpload() {
            if let refusal = try file.integrateAtOnce(upload, from: replica.ident)?.refusal { throw refusal }
        }
        try download(&replica)
    }

    func download(_ replica: inout Replica<MemoryReplicaStore>) throws {
        if let flexible { return try exchange(&replica, with: flexible, uploads: false) }
        let scan = file.downloads(for: replica.ident, .all)
        try replica.integrate(try scan.download(after: replica.progress.cursor, byteBudget: .max))
    }

    /// A session that is lost after so many messages of the server.
    func exchange(
        _ replica: inout Replica<MemoryReplicaStore>, losingAfter messagesMax: Int
    ) throws {
        guard let flexible else { return }
        try exchange(&replica, with: flexible, uploads: true, messagesMax: messagesMax)
    }

    private struct IsLost: Error {}

    /// Writes before a set are uploaded before its QUERY, and no later ones.
    private func exchange(
        _ replica: inout Replica<MemoryReplicaStore>, with flexible: FlexibleFile, uploads: Bool,
        messagesMax: Int = .max
    ) throws {
        guard let ident = replica.file else { return }
        var messagesLeft = messagesMax, asked: QueryVersion = 0
        try replica.dropBootstrapParts()
        replica.startUploading()
        let request = IdentRequest(
            file: ident, download: replica.progress.cursor, latest: replica.progress.latest,
            subscriptions: replica.activeSubscriptions)
        // A client that may have parts of a bootstrap has just dropped them.
        var session = try flexible.identify(request, hasRestarted: true)
        func receive() throws {
            while let message = try flexible.download(for: &session) {
                if messagesLeft == 0 { throw IsLost() }
                messagesLeft -= 1
                try replica.integrate(message.download, as: message.kind)
            }
        }
        do {
            try receive()
            while true {
                let unsent = replica.unsentSubscriptions(after: asked)
                if let unsent, replica.hasUploaded(through: unsent.snapshot) {
                    asked = unsent.set.version
                    if let reason = try flexible.query(unsent.set, in: &session) {
                        try replica.subscriptionsRefused(asked, reason)
                    }
                    try receive()
                    try replica.subscriptionsMarked()
                } else if uploads, let upload = try replica.nextUpload(through: unsent?.snapshot ?? .largest) {
                    guard let rest = try session.progress.accept(upload) else { continue }
                    if try flexible.recordProgress(rest, from: replica.ident, at: 1) { continue }
                    undone += try flexible.integrate(rest, from: replica.ident, at: 1).objects
                } else {
                    break
                }
            }
            try receive()
        } catch is IsLost {}
        flexible.leave(replica.ident)
    }

    // MARK: Client resets

    /// A fresh replica that has everything takes the place of another one.
    func reset(_ old: Replica<MemoryReplicaStore>) throws -> (Replica<MemoryReplicaStore>, ReplicaRecovery) {
        var fresh = try replica(subscribing: old.record.subscriptions?.active?.subscriptions ?? [])
        try download(&fresh)
        let recovery = try fresh.takePlace(of: old, recovers: true, at: 1_000)
        return (fresh, recovery)
    }
}

extension Replica {
    /// The links that its log has to upload to objects that it does not have.
    func danglingUploads() throws -> [Payload] {
        var found: [Payload] = []
        for version in log.versions(after: record.progress.upload.clientVersion) where version.bytes > 0 {
            var arena = ChangesetArena()
            let index = try arena.decode(
                try store.changeset(of: version.number), version: 1, tag: OriginTag(timestamp: 0, ident: 0))
            for instruction in arena.instructions(of: index) where instruction.kind.hasValue {
                let payload = arena.payload(of: instruction)
                guard instruction.kind != .setErase, case .link(let className, let key) = payload else { continue }
                let exists = try state.read {
                    try $0.object(String(decoding: className, as: UTF8.self), key: key) != nil
                }
                if !exists { found.append(payload) }
            }
        }
        return found
    }
}

extension InstructionKind {
    fileprivate var hasValue: Bool { [.update, .arrayInsert, .setInsert, .setErase].contains(self) }
}
