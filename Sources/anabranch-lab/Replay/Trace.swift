import AnabranchCore
import AnabranchTesting
import Foundation

/// A recorded history of people who typed into one document at the same time.
struct Trace: Decodable {
    struct Transaction: Decodable {
        var agent: Int
        var time: Date
        /// The transactions whose merged state it was made on.
        var parents: [Int]
        var patches: [Patch]

        /// The recorded time; the beginning of 2015 where it lies before.
        var timestamp: ChangesetTime { ChangesetTime(secondsSince1970: time.timeIntervalSince1970) }
    }

    /// Deletes characters at a position and inserts others there; all counted in Unicode scalars.
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

    private static let agentsMax = 1000

    var numAgents: Int
    var endContent: String
    var txns: [Transaction]

    /// Reads a gzip file of one JSON object and checks that its numbers make sense.
    static func read(_ path: String) throws -> Trace {
        let contents = try GzipFile.contents(of: path)
        let decoder = JSONDecoder()
        decoder.dateDecodingStrategy = .rfc3339
        do {
            let trace = try decoder.decode(Trace.self, from: contents)
            try trace.check()
            return trace
        } catch let error as DecodingError {
            throw InputError(description: "\(path): not a trace: \(error)")
        } catch {
            throw InputError(description: "\(path): \(error)")
        }
    }

    /// - Throws: `InputError`, if a number is one that cannot have been recorded.
    func check() throws {
        guard (1...Self.agentsMax).contains(numAgents) else {
            throw InputError(description: "numAgents is \(numAgents), not from 1 to \(Self.agentsMax)")
        }
        for (number, transaction) in txns.enumerated() {
            func require(_ isTrue: Bool, _ reason: @autoclosure () -> String) throws {
                guard isTrue else { throw InputError(description: "transaction \(number): \(reason())") }
            }
            try require((0..<numAgents).contains(transaction.agent), "there is no agent \(transaction.agent)")
            for parent in transaction.parents {
                try require((0..<number).contains(parent), "its parent \(parent) is no earlier transaction")
            }
            for patch in transaction.patches {
                try require(
                    patch.position >= 0 && 0...(.max - patch.position) ~= patch.deleted,
                    "it deletes \(patch.deleted) characters at \(patch.position)")
            }
        }
    }
}

/// The points at which a trace's agents have to upload and download so that each transaction is made on the state that
/// it was recorded on, with one server between them.
struct TraceSchedule {
    /// The transactions of each agent in order.
    let own: [[Int]]
    /// The numbers of transactions of each agent in the state that a transaction was made on.
    let known: [[Int]]
    /// All transactions in the order of the server's log.
    private(set) var log: [Int] = []

    /// The number of transactions that an error names.
    private static let namedMax = 3

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
                throw InputError(
                    description: "transaction \(number): agent \(transaction.agent) did not know its own transactions")
            }
            known.append(counts)
            own[transaction.agent].append(number)
        }
        self.own = own
        self.known = known
        log = try order(Self.preceding(trace, own, known))
    }

    /// The numbers of transactions of each agent that have to precede a transaction in the log: those that its author
    /// knew, and those that the author of any other transaction knew when it did not know this one.
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
            let waiting = own.indices.filter { done[$0] < own[$0].count }.map { (number: own[$0][done[$0]], agent: $0) }
            let ready = waiting.filter { next in
                own.indices.allSatisfy { preceding[next.number][$0] <= done[$0] }
            }
            guard let next = ready.min(by: { $0.number < $1.number }) else {
                let named = waiting.prefix(Self.namedMax).map { "\($0.number)" }.joined(separator: ", ")
                let rest = waiting.count > Self.namedMax ? " and \(waiting.count - Self.namedMax) more" : ""
                throw InputError(
                    description: "the exchanges do not fit one server between the agents: none of transactions "
                        + "\(named)\(rest) can be the next in its log")
            }
            log.append(next.number)
            done[next.agent] += 1
        }
        return log
    }
}

extension JSONDecoder.DateDecodingStrategy {
    /// Dates in the format of RFC 3339.
    static let rfc3339 = custom { decoder in
        let container = try decoder.singleValueContainer()
        guard let milliseconds = RFC3339.milliseconds(try container.decode(String.self).utf8) else {
            throw DecodingError.dataCorruptedError(in: container, debugDescription: "no time of RFC 3339")
        }
        return Date(timeIntervalSince1970: Double(milliseconds) / 1000)
    }
}
