import AnabranchCore

/// The MARKs of a session that are not answered yet (`Spec/Protocol.md`, section 8.4; `Spec/FlexibleSync.md`, section
/// 1.6). Of those between two QUERYs only the latest counts.
struct PendingMarks: Sendable {
    private struct Mark {
        let request: UInt64
        /// The last QUERY that came before it.
        let query: QueryVersion
        /// The newest server version when the next QUERY came, which does not delay the answer; nil until one has come.
        var version: ServerVersion?
        /// The number of the question that the file must answer first; 0 if there is none.
        let question: UInt64
    }

    private var marks: [Mark] = []
    /// The numbers of questions that the file was asked because of MARKs, and has answered.
    private var questions: UInt64 = 0
    private var answers: UInt64 = 0

    /// - Parameter asksFile: whether the file must first report its newest version (`fileAnswered`).
    mutating func add(_ request: UInt64, after query: QueryVersion, asksFile: Bool) {
        if let last = marks.last, last.version == nil { marks.removeLast() }
        if asksFile { questions += 1 }
        marks.append(Mark(request: request, query: query, question: asksFile ? questions : 0))
    }

    /// The file has answered the next question: there were server versions up to this one when the MARK came, or soon
    /// afterwards.
    mutating func fileAnswered(_ version: ServerVersion) {
        answers = min(answers + 1, questions)
        for index in marks.indices where marks[index].question == answers {
            marks[index].version = marks[index].version.map { max($0, version) }
        }
    }

    /// A QUERY has come: the versions exposed now are all that the MARKs before it wait for.
    mutating func queryCame(at exposedVersion: ServerVersion) {
        if let last = marks.indices.last, marks[last].version == nil { marks[last].version = exposedVersion }
    }

    /// There were server versions up to this one before any MARK came.
    mutating func begin(at exposedVersion: ServerVersion) {
        for index in marks.indices {
            marks[index].version = marks[index].version.map { max($0, exposedVersion) }
        }
    }

    /// The request of the latest MARK for which `isAnswerable` is true.
    ///
    /// - Parameter isAnswerable: whether a QUERY and all before it are settled, and the client has this version, or all
    ///   there is.
    func answerable(_ isAnswerable: (QueryVersion, ServerVersion?) -> Bool) -> UInt64? {
        marks.last { $0.question <= answers && isAnswerable($0.query, $0.version) }?.request
    }

    /// The MARK is answered, and those before it no longer need an answer.
    mutating func answered(_ request: UInt64) {
        if let index = marks.lastIndex(where: { $0.request == request }) { marks.removeSubrange(...index) }
    }
}
