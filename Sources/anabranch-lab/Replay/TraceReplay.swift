import AnabranchCore
import AnabranchHistory
import AnabranchTesting

/// Replays a trace through one client an agent and a server between them. The document is a list of strings of one
/// character each, in one object.
struct TraceReplay {
    private static let className = "Document"
    private static let field = "text"

    private let trace: Trace
    private let file: SyncedFile
    private var clients: [MemoryClient] = []

    /// - Parameter strategy: how the clients and the server merge.
    init(_ trace: Trace, strategy: MergeStrategy) throws {
        self.trace = trace
        file = try SyncedFile(path: VirtualPath("trace"), store: InMemoryStore())
        file.mergeOptions.strategy = strategy
        let idents = try file.allocateIdents(for: Array(repeating: nil, count: trace.numAgents + 1), at: 1)
        clients = idents.map { MemoryClient($0, strategy: strategy) }
        var founder = clients.removeLast()
        try founder.write(at: 0) { transaction in
            try transaction.addClass(Self.className, key: "_id", .int)
            try transaction.addColumn(Self.field, .string, collection: .list, to: Self.className)
            try transaction.create(Self.className, key: .int(1))
        }
        try founder.upload(to: file)
        for agent in clients.indices { try clients[agent].download(from: file) }
    }

    /// Makes each transaction on the state that it was recorded on.
    mutating func follow(_ schedule: TraceSchedule) throws {
        var next = clients.map { _ in 0 }
        var inLog = clients.map { _ in 0 }
        var waiting: (agent: Int, count: Int) = (0, 0)

        func isReady(_ agent: Int) -> Bool {
            guard next[agent] < schedule.own[agent].count else { return false }
            let known = schedule.known[schedule.own[agent][next[agent]]]
            return clients.indices.allSatisfy { $0 == agent || known[$0] == inLog[$0] }
        }
        func upload() throws {
            try self.upload(waiting.count, of: waiting.agent)
            waiting.count = 0
        }
        func writeWhereReady() throws {
            for agent in clients.indices where isReady(agent) {
                try upload()
                try clients[agent].download(from: file)
                while isReady(agent) {
                    try write(schedule.own[agent][next[agent]])
                    next[agent] += 1
                }
            }
        }
        try writeWhereReady()
        for number in schedule.log {
            let agent = trace.txns[number].agent
            if waiting.agent != agent { try upload() }
            waiting = (agent, waiting.count + 1)
            inLog[agent] += 1
            try writeWhereReady()
        }
        try upload()
        try exchange()
    }

    /// Makes all transactions before anything is exchanged. Each user then has less text than in the recording, so
    /// positions beyond its end start again at its beginning.
    mutating func stayOffline() throws {
        for number in trace.txns.indices { try write(number, wrapping: true) }
        try exchange()
    }

    private mutating func exchange() throws {
        for agent in clients.indices { try upload(.max, of: agent) }
        for agent in clients.indices { try clients[agent].download(from: file) }
    }

    /// Uploads `count` transactions, or all that there are, in as many UPLOADs as it takes.
    private mutating func upload(_ count: Int, of agent: Int) throws {
        var left = count
        while left > 0, let upload = clients[agent].nextUpload(left, isProgressTold: false) {
            _ = try file.integrateAtOnce(upload, from: clients[agent].ident)
            left -= upload.changesets.count
        }
    }

    private mutating func write(_ number: Int, wrapping: Bool = false) throws {
        let transaction = trace.txns[number]
        do {
            try clients[transaction.agent].write(at: transaction.timestamp) { write in
                guard let document = try write.object(Self.className, key: .int(1)) else { return }
                let text = try document.list(Self.field)
                for patch in transaction.patches { try Self.apply(patch, to: text, wrapping: wrapping) }
            }
        } catch {
            throw InputError(description: "transaction \(number): \(error)")
        }
    }

    private static func apply(_ patch: Trace.Patch, to text: DynamicList, wrapping: Bool) throws {
        var (start, end) = (patch.position, patch.position + patch.deleted)
        if wrapping {
            let count = try text.count
            start %= count + 1
            end = min(start + patch.deleted, count)
        }
        try text.removeSubrange(start..<end)
        for character in patch.inserted.unicodeScalars {
            try text.insert(.string(Array(String(character).utf8)), at: start)
            start += 1
        }
    }

    // MARK: Results

    /// The text of each client's document.
    func texts() throws -> [String] {
        try clients.map { client in
            try client.state.read { read in
                let values = try read.object(Self.className, key: .int(1))?.list(Self.field).values ?? []
                let bytes = values.flatMap { value in
                    if case .string(let bytes) = value { bytes } else { [] as [UInt8] }
                }
                return String(decoding: bytes, as: UTF8.self)
            }
        }
    }

    /// True if all clients, the server and its log are in one state.
    func isStateEqual() throws -> Bool {
        let states = try states()
        return states.allSatisfy { $0 == states.first }
    }

    /// The states of all clients, the server's, and the state that the server's log gives.
    func states() throws -> [[UInt8]] {
        var fromLog = ObjectGraph()
        try fromLog.replay(file.log())
        let server = try file.withState { $0 }
        return try (clients.map(\.state) + [server, fromLog]).map { try $0.canonicalJSON() }
    }
}
