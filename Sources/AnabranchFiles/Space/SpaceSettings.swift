public import Foundation

/// The settings of a space on one device.
public struct SpaceSettings: Sendable {
    /// When newer contents are brought.
    public enum Policy: Sendable {
        /// As soon as they are known, of all files.
        case always
        /// Those of open files and of pinned ones.
        case onOpen
        /// As `onOpen`, while a condition holds, such as that the network is not metered. It is evaluated for each
        /// content.
        case when(@Sendable () -> Bool)
        /// Only what is read and is not here, and pinned files.
        case manual
    }

    /// When newer contents are brought.
    public var policy = Policy.onOpen
    /// The most bytes of contents that are kept on the device; what was used longest ago goes first. Contents that an
    /// open handle shows, pinned ones, and those that wait for upload stay.
    public var cacheBytesMax: Int64 = 10 << 30
    /// The name of the device, for the names of conflict copies.
    public var deviceName = ProcessInfo.processInfo.hostName
    /// The clock.
    public var now: @Sendable () -> Date = { Date() }

    /// The usual settings.
    public init() {}
}

/// A file or folder of a space.
public struct SpaceEntry: Equatable, Sendable {
    /// Where it is shown; where it was, if it is in the trash.
    public let path: SpacePath
    /// The key, which stays through renaming and moving.
    public let key: UUID
    /// True for a folder.
    public let isFolder: Bool
    /// The size of the content that is known, in bytes; 0 for a folder.
    public let size: Int64
    /// When the content was written, by the clock of the device that did it; nil for a folder.
    public let modified: Date?
    /// The content: 64 hexadecimal digits. Nil for a folder, and for a new file whose content has not arrived at the
    /// server.
    public let contentID: String?
    /// The name under which it is shown: `name (2)` if another has its name.
    public var displayName: String { path.name }
}
