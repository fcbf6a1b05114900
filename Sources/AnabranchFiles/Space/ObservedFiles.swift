public import Observation

/// How a space stands, for views: an observable model of `FileSpace.statusUpdates`. It follows the space until nothing
/// refers to it any more or the space is closed.
@MainActor @Observable public final class ObservedSpace {
    /// The latest status, updated sixty times a second at most.
    public private(set) var status: FileSpace.Status
    @ObservationIgnored private var task: Task<Void, Never>?

    /// The status of a space, from now on.
    public init(of space: FileSpace) {
        status = space.status
        let updates = space.statusUpdates
        task = Task.detached { [weak self] in
            for await status in updates {
                guard await self?.take(status) != nil else { return }
                try? await Task.sleep(for: followingPause)
            }
        }
    }

    deinit { task?.cancel() }

    private func take(_ status: FileSpace.Status) {
        if status != self.status { self.status = status }
    }
}

/// An open file, for views: an observable model of its path and its statuses. It follows the file until nothing refers
/// to it any more or the file is closed.
@MainActor @Observable public final class ObservedFile {
    private let file: SpaceFile
    /// Where it is shown: it follows moves.
    public private(set) var path: SpacePath
    /// How the version stands that the file shows, updated sixty times a second at most.
    public private(set) var status: FileStatus
    /// How the version stands that the file has now; nil if it is the one that is shown.
    public private(set) var newerStatus: FileStatus?
    @ObservationIgnored private var tasks: [Task<Void, Never>] = []

    /// An open file, from now on.
    public init(of file: SpaceFile) {
        self.file = file
        (path, status, newerStatus) = (file.path, file.status, file.newerStatus)
        let statuses = file.statusUpdates, newer = file.newerStatusUpdates, changes = file.space.changes()
        tasks = [
            Task.detached { [weak self] in
                for await status in statuses {
                    guard await self?.take(status) != nil else { return }
                    try? await Task.sleep(for: followingPause)
                }
            },
            Task.detached { [weak self] in
                for await status in newer {
                    guard await self?.take(newer: status) != nil else { return }
                    try? await Task.sleep(for: followingPause)
                }
            },
            Task.detached { [weak self] in
                var changes = changes.makeAsyncIterator()
                repeat {
                    guard await self?.takePath() != nil else { return }
                    // What has moved may be a folder around it.
                } while await changes.next() != nil
            },
        ]
    }

    deinit { for task in tasks { task.cancel() } }

    private func take(_ status: FileStatus) {
        if status != self.status { self.status = status }
    }

    private func take(newer status: FileStatus?) {
        if status != newerStatus { newerStatus = status }
    }

    private func takePath() {
        let path = file.path
        if path != self.path { self.path = path }
    }
}

/// The pause after each value that goes to the main thread; changes during the pause are delivered together.
private let followingPause = Duration.milliseconds(16)
