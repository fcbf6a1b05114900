import Foundation

/// A recorded history of people who typed into one document at the same time.
struct Trace: Decodable {
    struct Transaction: Decodable {
        var agent: Int
        var time: Date
        /// The transactions whose merged state it was made on.
        var parents: [Int]
        var patches: [Patch]

        /// The recorded time in milliseconds since 2015-01-01 UTC; 0 where it lies before.
        var timestamp: UInt64 {
            UInt64(exactly: (time.timeIntervalSince1970 - 1_420_070_400) * 1000) ?? 0
        }
    }

    /// At a position, counted in Unicode scalars: so many are deleted, and some are inserted there.
    struct Patch: Decodable {
        var position: Int
        var deleted: Int
        var inserted: String

        init(from decoder: any Decoder) throws {
            var fields = try decoder.unkeyedContainer()
            position = try fields.decode(Int.self)
            deleted = try fields.decode(Int.self)
            inserted = try fields.decode(String.self)
        }
    }

    var numAgents: Int
    var endContent: String
    var txns: [Transaction]

    /// Reads a gzip file of one JSON object and checks that its numbers make sense.
    static func read(_ path: String) throws -> Trace {
        let trace: Trace
        let decoder = JSONDecoder()
        decoder.dateDecodingStrategy = .iso8601
        do {
            trace = try decoder.decode(Trace.self, from: try GzipFile.contents(of: path))
        } catch let error as DecodingError {
            throw InputError(description: "\(path): not a trace: \(error)")
        }
        for (number, transaction) in trace.txns.enumerated() {
            guard (0..<trace.numAgents).contains(transaction.agent),
                transaction.parents.allSatisfy({ (0..<number).contains($0) }),
                transaction.patches.allSatisfy({ $0.position >= 0 && $0.deleted >= 0 })
            else { throw InputError(description: "\(path): transaction \(number) makes no sense") }
        }
        return trace
    }
}

/// When a trace's agents have to upload and download so that each transaction is made on the state that it was recorded
/// on, with one server between them.
struct TraceSchedule {
    /// The transactions of each agent in order.
    let own: [[Int]]
    /// How many transactions of each agent are contained in the state that a transaction was made on.
    let known: [[Int]]
    /// All transactions in the order of the server's log.
    private(set) var log: [Int] = []

    /// - Throws: `InputError`, if no order of a log gives every agent what it knew and nothing else.
    init(of trace: Trace) throws {
        let agents = 0..<trace.numAgents
        var own: [[Int]] = agents.map { _ in [] }
        var known: [[Int]] = []
        for (number, transaction) in trace.txns.enumerated() {
            var counts = agents.map { _ in 0 }
            for parent in transaction.parents {
                for agent in agents { counts[agent] = max(counts[agent], known[parent][agent]) }
                let author = trace.txns[parent].agent
                counts[author] = max(counts[author], known[parent][author] + 1)
            }
            guard counts[transaction.agent] == own[transaction.agent].count else {
                throw InputError(description: "agent \(transaction.agent) did not know its own transactions")
            }
            known.append(counts)
            own[transaction.agent].append(number)
        }
        self.own = own
        self.known = known
        log = try order(Self.preceding(trace, own, known))
    }

    /// How many transactions of each agent have to precede a transaction in the log: those that its author knew, and those
    /// that someone knew who did not know the transaction itself.
    private static func preceding(_ trace: Trace, _ own: [[Int]], _ known: [[Int]]) -> [[Int]] {
        var preceding = known
        for (number, transaction) in trace.txns.enumerated() {
            for next in own.indices where next != transaction.agent {
                let firstUnknown = known[number][next]
                guard firstUnknown < own[next].count else { continue }
                for other in own.indices where other != next && other != transaction.agent {
                    let place = own[next][firstUnknown]
                    preceding[place][other] = max(preceding[place][other], known[number][other])
                }
            }
        }
        return preceding
    }

    private func order(_ preceding: [[Int]]) throws -> [Int] {
        var log: [Int] = []
        var done = own.map { _ in 0 }
        while log.count < known.count {
            let ready = own.indices.lazy.filter { done[$0] < own[$0].count }.map { own[$0][done[$0]] }.filter {
                number in
                own.indices.allSatisfy { preceding[number][$0] <= done[$0] }
            }
            guard let next = ready.min(),
                let agent = own.indices.first(where: { own[$0].dropFirst(done[$0]).first == next })
            else { throw InputError(description: "the trace's exchanges do not fit one server between the agents") }
            log.append(next)
            done[agent] += 1
        }
        return log
    }
}
