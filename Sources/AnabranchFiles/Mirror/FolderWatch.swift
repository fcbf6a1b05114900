@preconcurrency import Dispatch
import Foundation
import Synchronization

/// Tells what changes in folders of the disk, by name. Where the system has no such service, or its limit is reached,
/// the mirror has to look at everything.
final class FolderWatch: Sendable {
    /// The changes since the last question.
    struct News: Sendable {
        /// The files and folders that have come, gone or changed.
        var paths: Set<SpacePath> = []
        /// Those of them that somebody has had open to write, and has closed.
        var written: Set<SpacePath> = []
        /// True if there is more, of which no names are known.
        var hasMore = false
        /// True if any file may have been written, since names were lost.
        var isAllWritten = false
    }

    /// A name in a folder that is watched.
    private struct Event: Hashable {
        let watch: Int32
        let name: [UInt8]
    }

    private struct State {
        var events: Set<Event> = []
        var written: Set<Event> = []
        var hasMore = false
        var isAllWritten = false
        /// The moves of which one name has been told.
        var halfMoves: Set<UInt32> = []
        /// True if something else was told than moves and ends of writing.
        var hasOthers = false
        /// The folders by their watches. One that was moved is at its former place until it is added again.
        var folders: [Int32: SpacePath] = [:]
        /// The watches of folders that have gone.
        var ended: [Int32] = []
        var isComplete = true
    }

    /// The number of events that wait.
    private static let eventsMax = 100_000
    private let eventsMax: Int
    private let descriptor: Int32
    private let source: any DispatchSourceRead
    private let state = Mutex(State())

    /// - Parameters:
    ///   - bell: rings when there are news.
    ///   - eventsMax: the names that wait; the system has a limit of its own.
    /// - Returns: nil if the system does not offer it.
    init?(_ bell: Bell, eventsMax: Int = FolderWatch.eventsMax) {
        self.eventsMax = eventsMax
        #if os(Linux)
        descriptor = inotify_init1(Int32(IN_NONBLOCK | IN_CLOEXEC))
        guard descriptor >= 0 else { return nil }
        let descriptor = descriptor
        source = DispatchSource.makeReadSource(fileDescriptor: descriptor)
        source.setEventHandler { [weak self] in
            if let self, state.withLock({ self.read(into: &$0) }) { bell.ring() }
        }
        source.setCancelHandler { close(descriptor) }
        source.resume()
        #else
        return nil
        #endif
    }

    deinit { source.cancel() }

    /// False if there are folders that the system does not watch.
    var isComplete: Bool { state.withLock { $0.isComplete } }

    /// True if there is nothing to wait for: of each move since the last call of `take` both names are known, and else
    /// files were only written, and closed.
    var isWhole: Bool {
        state.withLock { state in
            #if os(Linux)
            _ = read(into: &state)
            #endif
            return state.halfMoves.isEmpty && !state.hasOthers
        }
    }

    /// Forgets what has changed, and which folders are not watched: now everything is looked at.
    /// - Returns: what had changed, of which the files count that somebody has had open to write, and has closed.
    func beginAnew() -> News {
        state.withLock { $0.isComplete = true }
        return take()
    }

    /// Watches a folder, and not those in it. One that is watched already has this path from now on.
    func add(_ folder: SpacePath, at path: String) {
        #if os(Linux)
        let kinds =
            IN_CREATE | IN_CLOSE_WRITE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ATTRIB | IN_ONLYDIR
            | IN_DONT_FOLLOW
        // Its events are not read before it is known.
        state.withLock { state in
            let watch = inotify_add_watch(descriptor, path, UInt32(kinds))
            // That a folder can be read again is told of the one around it.
            if watch >= 0 {
                state.folders[watch] = folder
            } else if ![ENOENT, ENOTDIR, EACCES].contains(errno) {
                state.isComplete = false
            }
        }
        #endif
    }

    /// Takes the changes since the last call: all that the system has told by now.
    func take() -> News {
        state.withLock { state in
            #if os(Linux)
            _ = read(into: &state)
            #endif
            var news = News(hasMore: state.hasMore, isAllWritten: state.isAllWritten)
            for event in state.events {
                guard let folder = state.folders[event.watch],
                    let name = String(validating: event.name, as: UTF8.self), let path = try? folder.appending(name)
                else {
                    news.hasMore = true
                    continue
                }
                let (isNew, known) = news.paths.insert(path)
                // Of two names that look the same, one would be passed over.
                if !isNew, !known.isComposed(as: path) { news.hasMore = true }
                if state.written.contains(event) { news.written.insert(path) }
            }
            for watch in state.ended { state.folders[watch] = nil }
            (state.events, state.written, state.ended) = ([], [], [])
            (state.hasMore, state.isAllWritten, state.halfMoves, state.hasOthers) = (false, false, [], false)
            return news
        }
    }

    #if os(Linux)
    /// Reads the events that the system has. Those of contents that are on their way do not count.
    /// - Returns: false if there are no others.
    private func read(into state: inout State) -> Bool {
        var buffer = [UInt8](repeating: 0, count: 64 << 10), hasNews = false
        while true {
            let count = Foundation.read(descriptor, &buffer, buffer.count)
            guard count > 0 else { return hasNews }
            var rest = buffer.prefix(count)
            while rest.count >= Self.headBytes {
                let (watch, kinds, cookie, nameBytes) = rest.withUnsafeBytes { head in
                    (
                        head.loadUnaligned(as: Int32.self), head.loadUnaligned(fromByteOffset: 4, as: UInt32.self),
                        head.loadUnaligned(fromByteOffset: 8, as: UInt32.self),
                        Int(head.loadUnaligned(fromByteOffset: 12, as: UInt32.self))
                    )
                }
                let name = rest.dropFirst(Self.headBytes).prefix(nameBytes).prefix { $0 != 0 }
                rest = rest.dropFirst(Self.headBytes + nameBytes)
                let isMove = kinds & UInt32(IN_MOVED_FROM | IN_MOVED_TO) != 0
                if isMove { state.halfMoves.formSymmetricDifference([cookie]) }
                guard !name.reversed().starts(with: FolderScan.draftEnding.utf8.reversed()) else { continue }
                hasNews = true
                if !isMove, kinds & UInt32(IN_CLOSE_WRITE) == 0 { state.hasOthers = true }
                if kinds & UInt32(IN_IGNORED) != 0 {
                    state.ended.append(watch)
                } else if kinds & UInt32(IN_UNMOUNT) != 0 {
                    state.hasMore = true
                } else if kinds & UInt32(IN_Q_OVERFLOW) != 0 || state.events.count >= eventsMax {
                    (state.events, state.written, state.halfMoves) = ([], [], [])
                    (state.hasMore, state.isAllWritten, state.hasOthers) = (true, true, true)
                } else if !name.isEmpty {
                    let event = Event(watch: watch, name: Array(name))
                    state.events.insert(event)
                    if kinds & UInt32(IN_CLOSE_WRITE) != 0 { state.written.insert(event) }
                }
            }
        }
    }

    /// The bytes of an event before its name.
    private static let headBytes = 16
    #endif
}
