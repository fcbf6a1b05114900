import AnabranchCore
import AnabranchReplica
import AnabranchTesting

/// Something that changes a replica.
enum ReplicaStep {
    /// A transaction with an edit for each number.
    case write([UInt64], at: ChangesetTime)
    case identify(SaltedFileID)
    case integrate(Download, DownloadKind)
    case useFlexibleSync
    case subscribe([Subscription])
    case refuse(QueryVersion)
    case mark
    case dropParts

    func take(on replica: inout Replica<some ReplicaStore>, in world: RandomWorld) throws {
        switch self {
        case .write(let seeds, let time):
            try replica.write(at: time, if: Self.isAccepted) { transaction in
                // It needs no other client to have a schema.
                try RandomWorld.declare(transaction)
                try Self.edit(transaction, seeds, in: world)
            }
        case .identify(let file): try replica.identify(as: file)
        case .integrate(let download, let kind): try replica.integrate(download, as: kind)
        case .useFlexibleSync: try replica.useFlexibleSync()
        case .subscribe(let subscriptions): try replica.subscribe(subscriptions)
        case .refuse(let version): try replica.subscriptionsRefused(version, "no")
        case .mark: try replica.subscriptionsMarked()
        case .dropParts: try replica.dropBootstrapParts()
        }
    }

    /// Refused steps are left out.
    static func edit(_ transaction: WriteTransaction, _ seeds: [UInt64], in world: RandomWorld) throws {
        for seed in seeds {
            do {
                try world.edit(transaction, seed: seed)
            } catch let error as ApplyError where error.code != .unavailable {}
        }
    }

    /// Others the server would refuse (`Spec/History.md`, section 16.2).
    static func isAccepted(_ changeset: [UInt8]) throws -> Bool {
        var arena = ChangesetArena()
        let index = try arena.decode(changeset, version: 1, tag: OriginTag(timestamp: 1, ident: 1))
        return arena.firstUseOfReplacedClass(in: index) == nil
    }

    var name: String {
        switch self {
        case .write: "write"
        case .identify: "identify"
        case .integrate(_, .steady): "integrate"
        case .integrate(_, .bootstrap(_, isLast: false)): "store a part"
        case .integrate(_, .bootstrap(_, isLast: true)): "integrate a bootstrap"
        case .useFlexibleSync: "use flexible sync"
        case .subscribe: "subscribe"
        case .refuse: "refuse"
        case .mark: "mark"
        case .dropParts: "drop parts"
        }
    }
}
