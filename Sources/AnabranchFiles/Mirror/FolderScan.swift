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

        /// Compares what is known of both: rows of earlier releases do not say when something was made.
        static func == (one: Self, other: Self) -> Bool {
            (one.isFolder, one.inode, one.size, one.modified)
                == (other.isFolder, other.inode, other.size, other.modified)
                && (one.born == other.born || one.born == 0 || other.born == 0)
        }
    }

    /// The ending of files that are being written here.
    static let draftEnding = ".anabranch-part"

    /// A name for a content that is on its way. What is set aside has others, and is not to be taken for one.
    static func draftName() -> String { ".\(UInt32.random(in: .min ... .max)).new\(draftEnding)" }

    private static func isDraftName(_ name: String) -> Bool {
        name.wholeMatch(of: /\.[0-9]{1,10}\.new\.anabranch-part/) != nil
    }

    /// By the paths below the folder.
    private(set) var found: [SpacePath: Found] = [:]
    /// The contents that are on their way, or have remained when a process ended.
    private(set) var drafts: [(path: String, modified: Int64)] = []
    /// The things that are passed over, and why.
    private(set) var skipped: [(path: String, reason: String)] = []
    /// The folders where something else is mounted. They and what they hide are neither found nor gone.
    private(set) var mounts: Set<SpacePath> = []

    /// - Parameter mount: the number of the mount that a path is on; 0 if it is not known, which counts as that of the
    ///   folder.
    /// - Throws: `SpaceError` if the folder cannot be read.
    init(_ root: String, mount: (String) -> UInt64) throws {
        var ownMount: UInt64 = 0
        var waiting: [SpacePath] = [.root]
        while let folder = waiting.popLast() {
            let path = root + (folder.components.isEmpty ? "" : "\(folder)")
            guard let stream = opendir(path) else {
                let error = ContentCache.lastError(path)
                guard !folder.components.isEmpty else { throw error }
                // It may have been removed in between.
                if Self.isTaken(path) { skipped.append((path, error.reason)) }
                continue
            }
            defer { closedir(stream) }
            // Asked when it is open: nothing is mounted there unnoticed before it is read.
            if ownMount == 0 { ownMount = mount(root) }
            guard folder.components.isEmpty || ownMount == 0 || [ownMount, 0].contains(mount(path)) else {
                found[folder] = nil
                mounts.insert(folder)
                skipped.append((path, "another disk or folder is mounted there"))
                continue
            }
            while let next = readdir(stream) {
                let bytes = withUnsafeBytes(of: next.pointee.d_name) { Array($0.prefix { $0 != 0 }) }
                if bytes == [0x2E] || bytes == [0x2E, 0x2E] { continue }
                guard let name = String(validating: bytes, as: UTF8.self), let child = try? folder.appending(name)
                else {
                    skipped.append(("\(path)/\(String(decoding: bytes, as: UTF8.self))", "its name is not in UTF-8"))
                    continue
                }
                guard let status = Self.status(root + "\(child)") else { continue }
                if name.hasSuffix(Self.draftEnding) {
                    if Self.isDraftName(name), status.st_mode & S_IFMT == S_IFREG {
                        drafts.append((root + "\(child)", Found(status, root + "\(child)").modified))
                    }
                    continue
                }
                if let other = found.keys.contains(child) ? child : nil {
                    skipped.append(("\(root)\(other)", "another has the same name, composed of other letters"))
                    continue
                }
                switch status.st_mode & S_IFMT {
                case S_IFREG: found[child] = Found(status, root + "\(child)")
                case S_IFDIR:
                    found[child] = Found(status, root + "\(child)")
                    waiting.append(child)
                case S_IFLNK: skipped.append(("\(root)\(child)", "it is a link"))
                default: skipped.append(("\(root)\(child)", "it is a special file"))
                }
            }
        }
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
        modified = Int64(status.st_mtim.tv_sec) &* 1_000_000_000 &+ Int64(status.st_mtim.tv_nsec)
    }
}
