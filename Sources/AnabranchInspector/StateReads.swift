import AnabranchCore
import AnabranchExplain
import AnabranchHistory
import AnabranchQuery
import AnabranchServer
import Foundation
import NIOHTTP1
import NIOPosix
import Synchronization

/// A synced file as a page reads it: one snapshot of the store, for as long as the read lasts.
struct PageView {
    let path: VirtualPath
    let id: SyncedFileID
    let view: any FileView
    let head: FileHead
    /// The state at the version that is looked at.
    let state: ObjectGraph
    /// The version whose state it is.
    let version: ServerVersion
}

/// Reads what the store has, in snapshots of it and on threads of its own, so that nobody who uses a file waits.
final class StateReads: Sendable {
    /// The threads for short reads, and the one for states of the past and whole comparisons.
    private static let shortThreads = 2
    /// The most bytes of changesets that are applied to make a state of the past.
    static let pastBytesMax: UInt64 = 32 << 20
    /// How many states of the past are kept for the next request.
    private static let keptStates = 2

    private let access: AdminAccess
    private let short = NIOThreadPool(numberOfThreads: shortThreads)
    private let long = NIOThreadPool(numberOfThreads: 1)
    private struct Past {
        let file: SyncedFileID, version: ServerVersion, state: ObjectGraph
    }
    private let past = Mutex<[Past]>([])

    init(_ access: AdminAccess) {
        self.access = access
        short.start()
        long.start()
    }

    deinit {
        short.shutdownGracefully { _ in }
        long.shutdownGracefully { _ in }
    }

    /// Runs work that reads the store.
    /// - Parameter isLong: true for work that may take seconds.
    func run<Value: Sendable>(
        isLong: Bool = false, _ work: @escaping @Sendable () throws -> Value
    ) async throws(PageError) -> Value {
        do {
            return try await (isLong ? long : short).runIfActive {
                Self.yieldToOthers()
                return try work()
            }
        } catch {
            throw PageError(error)
        }
    }

    /// Lets commits go first when processors are short: on Linux a priority is a thread's.
    private static func yieldToOthers() {
        #if os(Linux)
        setpriority(__priority_which_t(PRIO_PROCESS.rawValue), 0, 10)
        #endif
    }

    /// Runs `body` over a file.
    /// - Parameter version: of the state that is looked at; nil for the newest one.
    func read<Value: Sendable>(
        _ path: VirtualPath, at version: ServerVersion? = nil, isLong: Bool = false,
        _ body: @escaping @Sendable (PageView) throws -> Value
    ) async throws(PageError) -> Value {
        try await run(isLong: isLong || version != nil) { [self] in
            let path = access.file(at: path), store = access.store
            guard let id = try access.catalog.id(of: path) else { throw PageError.noSuch("file") }
            return try store.read(id) { view throws(HistoryError) in
                Result {
                    let head = try view.head()
                    let state = try version.map { try self.state(of: id, at: $0, in: view) } ?? store.state(of: id)
                    return try body(
                        PageView(
                            path: path, id: id, view: view, head: head, state: state,
                            version: version ?? head.stateVersion))
                }
            }.get()
        }
    }

    /// A state of the past.
    func state(of file: SyncedFileID, at version: ServerVersion, in view: any FileView) throws -> ObjectGraph {
        let head = try view.head()
        if version == head.stateVersion { return try access.store.state(of: file) }
        let kept = past.withLock { $0.first { $0.file == file && $0.version == version } }
        if let kept { return kept.state }
        try checkCost(of: version, in: view, head)
        let state = try view.state(at: version)
        past.withLock { past in
            past.insert(Past(file: file, version: version, state: state), at: 0)
            past = Array(past.prefix(Self.keptStates))
        }
        return state
    }

    private func checkCost(of version: ServerVersion, in view: any FileView, _ head: FileHead) throws {
        let generation = try view.generations().last { $0.version <= version }
        let end = version == 0 ? 0 : try view.entry(version)?.cumulativeSize ?? head.cumulativeSize
        let bytes = generation.map { $0.bytes + end - min(end, $0.cumulativeSize) } ?? end
        guard bytes <= Self.pastBytesMax else {
            throw PageError(
                .conflict, "TooLarge",
                """
                the state at version \(version) would be made from \(bytes >> 20) MiB of changes, and the inspector \
                takes \(Self.pastBytesMax >> 20) MiB at most: anabranch inspect --at \(version) prints it
                """)
        }
    }
}

extension PageView {
    /// A class by its name.
    func schema(_ name: String) throws(PageError) -> ClassSchema {
        guard let schema = state.schema(ofClass: Array(name.utf8)) else {
            throw PageError(.notFound, "NoSuchClass", "there is no class \(name) at version \(version)")
        }
        return schema
    }

    /// An object of a class; nil if it does not exist.
    func object(_ schema: ClassSchema, _ key: PrimaryKey) throws -> StateObject? {
        try state.object(ObjectReference(classID: schema.number, key: key))
    }
}
