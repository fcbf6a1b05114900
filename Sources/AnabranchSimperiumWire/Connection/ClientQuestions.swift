import Synchronization

/// Questions of the operator to the clients of a file, and their answers (`Spec/Simperium.md`, section 15). Clients of
/// node and browsers know none of them, so nobody waits for those.
final class ClientQuestions: Sendable {
    /// The newest questions, by which a channel knows what it has not been asked yet.
    struct Asked: Equatable {
        /// The number of questions for indexes so far.
        var indexes = 0
        /// How much clients are to tell of what they do: 0 for nothing, 1 for the usual, 2 for everything.
        var logLevel = 0
    }

    /// A channel that was asked for its index.
    struct Asking: Sendable {
        let bucket: String
        let client: String
        let library: ClientLibrary
        /// The answer of the client; nil if there is none yet.
        var index: String?
    }

    private struct State {
        var asked = Asked()
        var askings: [ObjectIdentifier: Asking] = [:]
        var answerBytes = 0
        var arrive: AsyncStream<Void>.Continuation?
        var lines: [String] = []
    }

    /// The most bytes of all answers together. What comes after that counts as not answered.
    private static let answerBytesMax = 32 << 20
    /// The most lines of logs that are kept, and the most characters of each.
    private static let lineCountMax = 200, lineLengthMax = 1_000

    private let state = Mutex(State())

    var asked: Asked { state.withLock { $0.asked } }

    // MARK: Indexes

    /// Asks all channels for their indexes, and waits until those who answer at all have done so.
    /// - Parameters:
    ///   - channelCount: the number of channels.
    ///   - wake: makes every channel look what it is asked.
    func askForIndexes(_ channelCount: Int, for duration: Duration, _ wake: () -> Void) async -> [Asking] {
        let (arrivals, arrive) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let earlier = state.withLock { state in
            state.asked.indexes += 1
            (state.askings, state.answerBytes) = ([:], 0)
            defer { state.arrive = arrive }
            return state.arrive
        }
        earlier?.finish()
        wake()
        let limit = Task {
            try await Task.sleep(for: duration)
            arrive.finish()
        }
        defer { limit.cancel() }
        if channelCount > 0 {
            for await _ in arrivals where isComplete(channelCount) { break }
        }
        return state.withLock { Array($0.askings.values) }
    }

    private func isComplete(_ channelCount: Int) -> Bool {
        state.withLock { state in
            state.askings.count >= channelCount
                && state.askings.values.allSatisfy { $0.index != nil || !$0.library.answersQuestions }
        }
    }

    /// A channel is asked.
    func add(_ channel: Channel) {
        let arrive = state.withLock { state in
            state.askings[ObjectIdentifier(channel)] = Asking(
                bucket: channel.bucketName, client: channel.client, library: channel.library)
            return state.arrive
        }
        arrive?.yield()
    }

    /// A channel answers. What nobody has asked for is not kept.
    func answer(_ index: Substring, of channel: Channel) {
        let arrive = state.withLock { state -> AsyncStream<Void>.Continuation? in
            let ident = ObjectIdentifier(channel), bytes = index.utf8.count
            guard let asking = state.askings[ident], asking.index == nil,
                state.answerBytes + bytes <= Self.answerBytesMax
            else { return nil }
            state.answerBytes += bytes
            state.askings[ident]?.index = String(index)
            return state.arrive
        }
        arrive?.yield()
    }

    /// Nobody waits for answers any more.
    func forgetIndexes() { state.withLock { ($0.askings, $0.answerBytes, $0.arrive) = ([:], 0, nil) } }

    // MARK: Logs

    /// Makes clients tell from now on what they do.
    func setLogLevel(_ level: Int) { state.withLock { $0.asked.logLevel = level } }

    /// Keeps a line of a client's log, while the operator wants them.
    func addLine(_ line: Substring) {
        state.withLock { state in
            guard state.asked.logLevel > 0 else { return }
            if state.lines.count == Self.lineCountMax { state.lines.removeFirst() }
            state.lines.append(String(line.prefix(Self.lineLengthMax)))
        }
    }

    /// The lines that are kept, the oldest first.
    var lines: [String] { state.withLock { $0.lines } }
}

extension ClientLibrary {
    /// True if the clients answer the server's questions.
    var answersQuestions: Bool { self != .node && self != .browser }
}
