import AnabranchCore

@testable import AnabranchProtocol

/// One session by the table of `Spec/Protocol.md`, section 8.3.
struct ServerTable {
    /// The actions for the caller of the connection.
    enum Expected: Equatable {
        case violation(ErrorCode), nothing, open, identify, query, integrate, close
        case clientFailed(isAnswered: Bool)
    }

    private enum State: Equatable {
        case none, allocating, waiting, running
        case errorPending(ErrorCode)
        case errorSent, unbinding
    }

    private var state = State.none
    private var hasIdent = false, isAccepted = false, hasDownloaded = false
    private var madeDownloads = 0
    private var marks: Set<UInt64> = []
    private var testCommands: [UInt64] = []
    private var newestQuery: QueryVersion = 0
    private var refused: Set<QueryVersion> = []
    /// A QUERY that was neither refused nor answered with a bootstrap.
    private(set) var openQuery: QueryVersion?

    var isThere: Bool { state != .none }

    var hasFailed: Bool {
        switch state {
        case .errorPending, .errorSent: true
        default: false
        }
    }

    var mayScan: Bool { state == .running && isAccepted }

    mutating func receive(_ message: ClientMessage) -> Expected {
        switch (state, message) {
        case (.none, .bind(_, let request)):
            self = ServerTable()
            state = request.needsFileIdent ? .allocating : .waiting
            return .open
        case (.none, _): return .violation(.badSessionIdent)
        case (_, .bind): return .violation(.reuseOfSessionIdent)
        case (.unbinding, _): return .violation(.badMessageOrder)
        case (.errorSent, .unbind): state = .none
        case (.errorPending, .unbind): state = .unbinding
        case (.errorSent, _), (.errorPending, _): break
        case (_, .unbind):
            state = .unbinding
            return .close
        case (.waiting, .ident):
            state = .running
            return .identify
        case (.running, .query(_, let set)):
            guard set.version > newestQuery else { return .violation(.badMessageOrder) }
            (newestQuery, openQuery) = (set.version, set.version)
            return .query
        case (.running, .upload): return .integrate
        case (.running, .mark(_, let request)): marks = [request]
        case (.running, .error(_, let code, _)):
            state = .errorPending(code == 212 ? .badClientFile : .otherSessionError)
            return .clientFailed(isAnswered: true)
        case (_, .error): return .clientFailed(isAnswered: false)
        case (_, .testCommand(_, let request, _)): testCommands.append(request)
        default: return .violation(.badMessageOrder)
        }
        return .nothing
    }

    // MARK: From the server

    mutating func identAllocated() { hasIdent = true }

    mutating func accepted() { if state == .running { isAccepted = true } }

    mutating func fail(_ code: ErrorCode) {
        if [.allocating, .waiting, .running].contains(state) { state = .errorPending(code) }
    }

    mutating func refuse(_ version: QueryVersion) {
        refused.insert(version)
        if openQuery == version { openQuery = nil }
    }

    mutating func downloadMade() {
        madeDownloads += 1
        openQuery = nil
    }

    mutating func sent(_ message: ServerMessage) throws {
        func require(_ isTrue: Bool) throws { if !isTrue { throw WrongOutcome("says \(message) in \(self)") } }
        switch message {
        case .ident:
            try require(state == .allocating && hasIdent)
            state = .waiting
        case .download:
            try require(state == .running && isAccepted && madeDownloads > 0)
            madeDownloads -= 1
            hasDownloaded = true
        case .mark(_, let request):
            try require(state == .running && hasDownloaded && marks.contains(request))
            marks = []
        case .queryError(_, let refusal):
            try require(state == .running && refused.remove(refusal.version) != nil)
        case .error(_, let error):
            try require(state == .errorPending(error.code))
            state = .errorSent
        case .unbound:
            try require(state == .unbinding)
            state = .none
        case .testCommand(_, let request, _):
            try require(isThere && state != .unbinding && state != .errorSent && testCommands.contains(request))
            if let index = testCommands.firstIndex(of: request) { testCommands.remove(at: index) }
        case .log, .pong: try require(false)
        }
    }

    /// Nobody waits for anything.
    func checkIsSettled() throws {
        let isSettled =
            switch state {
            case .none, .waiting, .errorSent: true
            case .running: isAccepted && hasDownloaded && marks.isEmpty && openQuery == nil && refused.isEmpty
            case .allocating, .errorPending, .unbinding: false
            }
        if !isSettled { throw WrongOutcome("ends in \(self)") }
    }
}
