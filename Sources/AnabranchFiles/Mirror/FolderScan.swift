import Foundation

/// The files and folders in a folder of the disk. Links, special files and mounted disks are passed over: no link is
/// followed, and no other disk entered.
struct FolderScan: Sendable {
    /// A file or folder on the disk.
    struct Found: Equatable, Sendable {
        var isFolder: Bool
        var inode: UInt64
        var size: Int64 = 0
        /// Nanoseconds since 1970; beyond the year 2262, a number that only tells times apart.
        var modified: Int64 = 0
        /// When it was made, in nanoseconds since 1970; 0 where it is not known. Of two that have had the same inode,
        /// one after the other, size and modification may be the same as well, as of files that come out of archives.
        var born: Int64 = 0
        /// When anything of it was changed last, which no program can set; 0 if this was found by an earlier process.
        var changed: Int64 = 0
        /// When it was looked at.
        var looked: Int64 = 0

        /// Compares what is known of both: rows of earlier releases do not say when something was made.
        static func == (one: Self, other: Self) -> Bool {
            (one.isFolder, one.inode, one.size, one.modified)
                == (other.isFolder, other.inode, other.size, other.modified)
                && (one.born == other.born || one.born == 0 || other.born == 0)
        }

        /// True if it may have another content now although both are equal: it was looked at within one tick of the
        /// disk's clock, or it was written and got its former time back.
        /// - Parameter isWritten: true if somebody has had it open to write, and has closed it.
        func mayDiffer(from now: Self, isWritten: Bool) -> Bool {
            let tick: Int64 = changed % 1_000_000_000 == 0 ? 2_000_000_000 : 20_000_000
            let isFresh = changed != 0 && (looked - tick...looked).contains(changed)
            return isFresh || isWritten && changed != now.changed
        }
    }

    /// The ending of files that are being written here.
    static let draftEnding = ".anabranch-part"

    /// A name for a content that is on its way. What is set aside has others, and is not to be taken for one.
    static func draftName() -> String { ".\(UInt32.random(in: .min ... .max)).new\(draftEnding)" }

    private static func isDraftName(_ name: String) -> Bool {
        name.wholeMatch(of: /\.[0-9]{1,10}\.new\.anabranch-part/) != nil
    }

    /// The folder that is looked at, and by what.
    struct Place: Sendable {
        let root: String
        /// The number of the mount that a path is on; 0 if it is not known, which counts as that of the folder.
        let mount: @Sendable (String) -> UInt64
        /// Is told each folder before that is read.
        var watch: FolderWatch?

        func path(_ path: SpacePath) -> String { root + (path.components.isEmpty ? "" : "\(path)") }
    }

    /// By the paths below the folder.
    private(set) var found: [SpacePath: Found] = [:]
    /// The contents that are on their way, or have remained when a process ended.
    private(set) var drafts: [(path: String, modified: Int64)] = []
    /// The things that are passed over, and why.
    private(set) var skipped: [(path: String, reason: String)] = []
    /// The folders where something else is mounted. They and what they hide are neither found nor gone.
    private(set) var mounts: Set<SpacePath> = []
    /// The paths that were looked at, each with everything below it; nil if everything was.
    let paths: Set<SpacePath>?
    private let place: Place
    private var ownMount: UInt64

    /// Looks at everything in a folder.
    /// - Throws: `SpaceError` if the folder cannot be read.
    init(_ place: Place) throws {
        (self.place, paths, ownMount) = (place, nil, 0)
        try read(.root)
    }

    /// Looks at some paths, and at everything below those that are folders.
    /// - Returns: nil if that is not enough to say what is there: around one of them is something else than a folder of
    ///   this disk, or nobody may look.
    init?(_ paths: Set<SpacePath>, in place: Place) {
        (self.place, self.paths, ownMount) = (place, paths, place.mount(place.root))
        var entered: Set<SpacePath> = [.root], done: Set<SpacePath> = []
        for path in paths.sorted(by: { $0.components.count < $1.components.count }) {
            var isThere = true
            for count in 1..<max(1, path.components.count) where isThere {
                let folder = SpacePath(unchecked: Array(path.components.prefix(count)))
                if done.contains(folder) { isThere = false }
                guard isThere, !entered.contains(folder) else { continue }
                guard let isEntered = isEntered(folder) else { return nil }
                isThere = isEntered
                entered.insert(folder)
            }
            guard isThere else { continue }
            var status = stat()
            guard lstat(place.path(path), &status) == 0 else {
                guard errno == ENOENT || errno == ENOTDIR else { return nil }
                continue
            }
            guard add(path, status) else { continue }
            guard isEntered(path) != nil, (try? read(path)) != nil, mounts.isEmpty else { return nil }
            done.insert(path)
        }
    }

    /// True for a folder that is one of this disk, false if there is nothing of that name; nil for anything else.
    private func isEntered(_ folder: SpacePath) -> Bool? {
        let path = place.path(folder)
        var status = stat()
        guard lstat(path, &status) == 0 else { return errno == ENOENT || errno == ENOTDIR ? false : nil }
        return status.st_mode & S_IFMT == S_IFDIR && isOwn(place.mount(path)) ? true : nil
    }

    private func isOwn(_ mount: UInt64) -> Bool { ownMount == 0 || [ownMount, 0].contains(mount) }

    /// - Throws: `SpaceError` if it is the root that cannot be read.
    private mutating func read(_ first: SpacePath) throws {
        var waiting = [first]
        while let folder = waiting.popLast() {
            let path = place.path(folder)
            guard let stream = Self.open(path) else {
                let error = ContentCache.lastError(path)
                guard !folder.components.isEmpty else { throw error }
                // It may have been removed in between.
                if Self.isTaken(path) { skipped.append((path, error.reason)) }
                continue
            }
            defer { closedir(stream) }
            // Asked when it is open: nothing is mounted there unnoticed before it is read.
            if ownMount == 0 { ownMount = place.mount(place.root) }
            guard folder.components.isEmpty || isOwn(place.mount(path)) else {
                found[folder] = nil
                mounts.insert(folder)
                skipped.append((path, "another disk or folder is mounted there"))
                continue
            }
            // What comes from now on is told, or read.
            place.watch?.add(folder, at: path)
            while let next = readdir(stream) {
                let bytes = withUnsafeBytes(of: next.pointee.d_name) { Array($0.prefix { $0 != 0 }) }
                if bytes == [0x2E] || bytes == [0x2E, 0x2E] { continue }
                guard let name = String(validating: bytes, as: UTF8.self), let child = try? folder.appending(name)
                else {
                    skipped.append(("\(path)/\(String(decoding: bytes, as: UTF8.self))", "its name is not in UTF-8"))
                    continue
                }
                guard let status = Self.status(place.path(child)) else { continue }
                if add(child, status) { waiting.append(child) }
            }
        }
    }

    private static func open(_ path: String) -> OpaquePointer? {
        let descriptor = Foundation.open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
        return descriptor < 0 ? nil : fdopendir(descriptor)
    }

    /// Takes up one thing.
    /// - Returns: true if it is a folder.
    private mutating func add(_ child: SpacePath, _ status: stat) -> Bool {
        let path = place.path(child)
        if child.name.hasSuffix(Self.draftEnding) {
            if Self.isDraftName(child.name), status.st_mode & S_IFMT == S_IFREG {
                drafts.append((path, Found(status, path).modified))
            }
            return false
        }
        guard !found.keys.contains(child) else {
            skipped.append((path, "another has the same name, composed of other letters"))
            return false
        }
        switch status.st_mode & S_IFMT {
        case S_IFREG: found[child] = Found(status, path)
        case S_IFDIR:
            found[child] = Found(status, path)
            return true
        case S_IFLNK: skipped.append((path, "it is a link"))
        default: skipped.append((path, "it is a special file"))
        }
        return false
    }

    static func status(_ path: String) -> stat? {
        var status = stat()
        return lstat(path, &status) == 0 ? status : nil
    }

    /// A file or folder as it is now; nil if there is none, or if it is a link or something else.
    static func look(_ path: String) -> Found? {
        guard let status = status(path), [S_IFREG, S_IFDIR].contains(status.st_mode & S_IFMT) else { return nil }
        return Found(status, path)
    }

    /// True if there is no file or folder of that name. It is not known where nobody may look.
    static func isGone(_ path: String) -> Bool {
        var status = stat()
        guard lstat(path, &status) == 0 else { return errno == ENOENT || errno == ENOTDIR }
        return ![S_IFREG, S_IFDIR].contains(status.st_mode & S_IFMT)
    }

    /// True if something has that name, whatever it is.
    static func isTaken(_ path: String) -> Bool { status(path) != nil }
}

extension FolderScan.Found {
    fileprivate init(_ status: stat, _ path: String) {
        isFolder = status.st_mode & S_IFMT == S_IFDIR
        inode = UInt64(status.st_ino)
        born = FolderMark.birthTime(of: path)
        guard !isFolder else { return }
        size = Int64(status.st_size)
        modified = Self.nanoseconds(status.st_mtim)
        changed = Self.nanoseconds(status.st_ctim)
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        looked = Self.nanoseconds(time)
    }

    private static func nanoseconds(_ time: timespec) -> Int64 {
        Int64(time.tv_sec) &* 1_000_000_000 &+ Int64(time.tv_nsec)
    }
}
