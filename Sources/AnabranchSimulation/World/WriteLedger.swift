import AnabranchCore

/// The record of counted writes, to check that acknowledged writes are there, and that none is there twice
/// (`Spec/Durability.md`, P1 and P2).
struct WriteLedger {
    struct Write {
        let file: Int
        let client: Int
        /// The client's version that it made; nil once the client has started over.
        var version: ClientVersion?
        var isAcknowledged = false
        /// True if the write may be missing for a known reason: a backup was restored, its client has discarded it, or
        /// the server has undone it.
        var mayBeMissing = false
        /// True once the server's state has contained it.
        var wasStored = false
        /// True if its author may have repeated it without knowing that it had arrived.
        var mayBeTwice = false
    }

    private(set) var writes: [Int64: Write] = [:]
    private var lastToken: Int64 = 0

    mutating func begin(by client: Int, in file: Int, as version: ClientVersion?) -> Int64 {
        lastToken += 1
        writes[lastToken] = Write(file: file, client: client, version: version)
        return lastToken
    }

    mutating func acknowledge(_ token: Int64) { writes[token]?.isAcknowledged = true }

    /// - Returns: the number of writes that this acknowledges for the first time.
    mutating func acknowledge(through version: ClientVersion, of client: Int) -> Int {
        change(of: client) { write in
            guard let own = write.version, own <= version, !write.isAcknowledged else { return false }
            write.isAcknowledged = true
            return true
        }
    }

    mutating func stored(_ tokens: some Sequence<Int64>) { for token in tokens { writes[token]?.wasStored = true } }

    /// Records that a client of flexible sync starts over before it has learned which of its writes were refused, among
    /// those that were acknowledged and those that it has repeated, some of which may have been acknowledged.
    mutating func recordUnreported(_ client: Int) {
        _ = change(of: client) { write in
            guard write.isAcknowledged || write.version == nil, !write.wasStored else { return false }
            write.mayBeMissing = true
            return true
        }
    }

    /// Records that a client starts over.
    /// - Parameter isRecovered: whether it repeats the writes that were not acknowledged.
    mutating func reset(_ client: Int, isRecovered: Bool) {
        _ = change(of: client) { write in
            guard !write.isAcknowledged else { return false }
            write.version = nil
            if isRecovered { write.mayBeTwice = true } else { write.mayBeMissing = true }
            return true
        }
    }

    /// Records that a client has repeated what it could, and that all of it is acknowledged.
    mutating func recovered(_ client: Int) {
        _ = change(of: client) { write in
            guard write.version == nil else { return false }
            write.isAcknowledged = true
            return true
        }
    }

    /// Records that nothing is certain about the writes of a client that are not acknowledged, since another client has
    /// its file.
    mutating func doubt(_ client: Int) {
        _ = change(of: client) { write in
            guard !write.isAcknowledged else { return false }
            (write.mayBeMissing, write.mayBeTwice) = (true, true)
            return true
        }
    }

    /// Records that the transaction has not taken place, or that the server has undone it.
    mutating func undone(_ token: Int64) { writes[token]?.mayBeMissing = true }

    /// Records that a file was restored from a backup, which has the writes with these tokens.
    mutating func restored(_ file: Int, with tokens: Set<Int64>) {
        for (token, write) in writes where write.file == file {
            // A write that was on its way may be repeated by an author who believes that it has not arrived.
            if !write.isAcknowledged { writes[token]?.mayBeTwice = true }
            if !tokens.contains(token) { writes[token]?.mayBeMissing = true }
        }
    }

    private mutating func change(of client: Int, _ body: (inout Write) -> Bool) -> Int {
        var count = 0
        for token in writes.keys where writes[token]?.client == client {
            if var write = writes[token], body(&write) {
                writes[token] = write
                count += 1
            }
        }
        return count
    }

    // MARK: Checking

    /// - Parameter counts: how often each object that is there was written, by token.
    func check(_ counts: [Int64: Int64], of file: Int) throws {
        for (token, write) in writes.sorted(by: { $0.key < $1.key }) where write.file == file {
            guard let count = counts[token] else {
                try require(
                    !write.isAcknowledged || write.mayBeMissing,
                    "P1: write \(token) of client \(write.client) was acknowledged, and is gone")
                continue
            }
            try require(
                count == 1 || write.mayBeTwice, "P2: write \(token) of client \(write.client) is there \(count) times")
        }
        for token in counts.keys {
            try require(writes[token]?.file == file, "P2: nobody has made write \(token) in file \(file)")
        }
    }

    static func counts(in state: ObjectGraph) throws -> [Int64: Int64] {
        var counts: [Int64: Int64] = [:]
        try state.read { transaction in
            guard transaction.classNames.contains(CountedWrites.entry) else { return }
            for object in try transaction.objects(CountedWrites.entry) {
                guard case .int(let token)? = object.key, case .int(let count) = try object.value("count") else {
                    continue
                }
                counts[token] = count
            }
        }
        return counts
    }
}
