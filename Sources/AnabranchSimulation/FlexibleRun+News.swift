import AnabranchCore
import AnabranchHistory
import AnabranchProtocol
import AnabranchTesting

// How clients hear of commits (`FileSessions+News.swift` in the server), and commits that are stored later or fail.

extension FlexibleRun {
    /// Tells the clients concerned that there is something new, some of them with the DOWNLOAD of it.
    func announce() {
        let news = file.takeClientsToNotify()
        for (index, participant) in participants.enumerated() {
            guard let ident = participant.session?.ident, news.contains(ident) else { continue }
            if random.isOne(in: 4) || !sendNews(to: index) { participant.expose(synced.version) }
        }
    }

    /// Makes the DOWNLOAD of what has happened in a view, which its client has not requested. It arrives now or later.
    /// - Returns: false if the client has to ask.
    private func sendNews(to index: Int) -> Bool {
        let participant = participants[index]
        guard !integrating.contains(index), participant.hasTakenUnasked, var session = participant.session else {
            return false
        }
        let before = session.sent, bytesMax = random.pick([100, 10_000])
        guard
            let made = file.news(
                for: &session, participant.capabilities, bytesMax: bytesMax, isEncoded: { _ in false })
        else { return false }
        participant.session = session
        participant.unasked = (before, made.download.progress.cursor.serverVersion)
        participant.news = (FlexibleDownload(made), before.cursor)
        if random.isOne(in: 2) { _ = deliverNews(to: index) }
        return true
    }

    /// Delivers the DOWNLOAD that a client has not requested, or drops it, as when the socket takes no more.
    /// - Returns: whether there was one.
    func deliverNews(to index: Int) -> Bool {
        guard participants[index].news != nil else { return false }
        tally.news += 1
        if !participants[index].deliverNews(canSend: !random.isOne(in: 3)) { tally.droppedNews += 1 }
        return true
    }

    /// Does something with the file, in some cases as in the server, where its commits are stored as one once the
    /// news of them are made. Now and then that fails: all of it is forgotten, and all sessions end before anything of
    /// it was sent.
    func deferring(_ body: () throws -> Void) throws {
        guard integrating.isEmpty, random.isOne(in: 4) else { return try body() }
        let fails = !losesNothing && random.isOne(in: 10)
        let before = fails ? (made: made, events: events, refusals: participants.map(\.refusals)) : nil
        synced.defersCommits = true
        let result = Result { try body() }
        announce()
        synced.defersCommits = false
        guard let commit = synced.takeDeferred() else { return try result.get() }
        if let before, case .success = result {
            (made, events) = (before.made, before.events)
            for (participant, refusals) in zip(participants, before.refusals) { participant.refusals = refusals }
            tally.failedCommits += 1
            return try restart()
        }
        try store.commit([commit])
        synced.finish(commit, nil)
        file.didStore(commit)
        try result.get()
    }
}
