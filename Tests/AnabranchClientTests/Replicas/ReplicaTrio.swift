import AnabranchCore
import AnabranchReplica
import AnabranchTesting

/// One replica on three stores: the one that is tested, `ModelReplicaStore`, and `MemoryReplicaStore`. Every step is
/// taken on all of them, and what it leaves is compared.
struct ReplicaTrio<Store: ReplicaStore> {
    private let behaviour: ReplicaBehaviour
    private(set) var subject: Replica<FailingStore<Store>>
    private var model: Replica<ModelReplicaStore>
    private(set) var memory: Replica<MemoryReplicaStore>

    init(_ store: Store, _ behaviour: ReplicaBehaviour) throws {
        self.behaviour = behaviour
        subject = try Replica(FailingStore(store), behaviour)
        model = try Replica(ModelReplicaStore())
        memory = try Replica(MemoryReplicaStore())
    }

    /// Takes a step, at first with a store of which the first call fails, then the one that is given, if there are so
    /// many.
    mutating func take(_ step: ReplicaStep, failingAt call: Int, in world: RandomWorld) throws {
        var failed: ReplicaError?, hasFailed = true
        for calls in [0, call] where hasFailed {
            subject.store.callsUntilFailure = calls
            failed = Self.error { try step.take(on: &subject, in: world) }
            hasFailed = subject.store.callsUntilFailure == nil
            subject.store.callsUntilFailure = nil
            guard hasFailed else { break }
            try demand(failed?.code == .storeFailed, "the store's failure is told: \(String(describing: failed))")
            try compare()
        }
        if hasFailed { failed = Self.error { try step.take(on: &subject, in: world) } }
        let errors = [
            Self.error { try step.take(on: &model, in: world) }, Self.error { try step.take(on: &memory, in: world) },
        ]
        try compare()
        guard let error = errors[0] else { return try demand(errors[1] == nil && failed == nil, "no error") }
        try demand(errors[1] == error && failed == error, "the same error everywhere")
        throw error
    }

    private static func error(_ body: () throws -> Void) -> ReplicaError? {
        do {
            try body()
            return nil
        } catch {
            let isUnread = (error as? ApplyError)?.code == .unavailable
            return error as? ReplicaError ?? ReplicaError(isUnread ? .storeFailed : .notAllowed, "\(error)")
        }
    }

    mutating func reopen(_ body: (Store) throws -> Store) throws {
        subject = try Replica(FailingStore(try body(subject.store.inner)), behaviour)
        // Another process begins its sessions anew.
        startUploading()
        try compare()
    }

    mutating func startUploading() {
        subject.startUploading()
        model.startUploading()
        memory.startUploading()
    }

    /// The next UPLOAD of all of them.
    mutating func nextUpload(countMax: Int) throws -> Upload? {
        let last = ClientVersion(rawValue: .max)
        let upload = try subject.nextUpload(through: last, countMax: countMax)
        let others = [
            try model.nextUpload(through: last, countMax: countMax),
            try memory.nextUpload(through: last, countMax: countMax),
        ]
        try demand(others.allSatisfy { $0 == upload }, "they upload the same")
        return upload
    }

    // MARK: Comparing

    func compare() throws {
        let states = try [subject.state, model.state, memory.state].map { try StateDigest(of: $0) }
        try demand(Set(states).count == 1, "equal states")
        try demand(subject.record == memory.record && model.record == memory.record, "equal records")
        try demand(subject.newestChange == memory.newestChange, "equal newest changes")
        try demand(subject.unacknowledged == memory.unacknowledged, "as much unacknowledged")
        try compareStores(state: states[0])
    }

    private func compareStores(state: StateDigest) throws {
        let stored = try subject.store.load(), expected = try model.store.load()
        try demand(stored.record == memory.record && expected.record == memory.record, "equal stored records")
        try demand(stored.log == expected.log, "equal stored logs")
        try demand(try StateDigest(of: stored.state) == state, "the stored state is that of readers")
        for version in stored.log.map(\.number) {
            let changeset = try subject.store.changeset(of: version)
            try demand(changeset == (try model.store.changeset(of: version)), "equal changesets")
            try demand(changeset == memory.store.changeset(of: version), "equal changesets in memory")
            let reciprocal = try subject.store.reciprocal(of: version)
            try demand(reciprocal == model.store.reciprocal(of: version), "equal reciprocal changesets")
            try demand(reciprocal == memory.store.reciprocal(of: version), "equal reciprocal changesets in memory")
        }
        let parts = try subject.store.bootstrapParts()
        try demand(parts == model.store.bootstrapParts(), "equal parts of a bootstrap")
        try demand(parts == memory.store.bootstrapParts(), "equal parts of a bootstrap in memory")
    }

    private func demand(_ holds: Bool, _ text: String) throws {
        if !holds { throw ReplicaRunError(description: "expected: \(text)") }
    }
}

/// The findings of a `ReplicaRun`.
struct ReplicaRunError: Error, CustomStringConvertible {
    let description: String
}
