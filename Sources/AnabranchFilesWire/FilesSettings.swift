/// The settings of the file spaces of an app (`Spec/Files.md`, section 5).
package struct FilesApp: Equatable, Sendable {
    /// After how many days the server erases what is in the trash.
    package var trashDays = 30
    /// The most bytes that the chunks of one synced file may have together.
    package var quotaBytes: Int64 = 10 << 30

    package init() {}
}

/// The settings of the wire of files.
package struct FilesSettings: Sendable {
    /// The apps that are served, by their ids.
    package var apps: [String: FilesApp] = [:]
    /// For how long a chunk is kept that no file uses, in days.
    package var unusedDays = 30
    /// For how long a user can read a chunk that no file uses yet, in seconds.
    package var uploaderSeconds: UInt64 = 86_400
    /// How many uses of chunks are ended with the entry that does so: an object can name 100,000 chunks, and an entry
    /// can erase many objects.
    package var endedUsesMax = 10_000

    package init() {}
}
