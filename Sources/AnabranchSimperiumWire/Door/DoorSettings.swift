/// The rules of the buckets of an app (`Spec/Simperium.md`, section 9).
package struct BucketSettings: Equatable, Sendable {
    /// How entities lie in objects. It counts when the first entity of the bucket is written.
    package var form = BucketForm.flat
    /// True if a change without a version merges with the present entity; false if it is refused (405).
    package var mergesWithoutVersion = false
    /// True if only the newest version of an entity can be deleted.
    package var deletesStrictly = false
    /// The greatest size of an entity, in bytes of compact JSON.
    package var entityBytesMax = 1 << 20
    /// True if copies that clients of node are left with are put right.
    package var healsNode = true
    /// True if all users of the app have the bucket together, in a file of its own.
    package var isShared = false

    package init() {}
}

/// How long the door keeps its records (`Spec/Simperium.md`, section 6).
package struct DoorSettings: Equatable, Sendable {
    /// Days for which changes, and the requests that they answered, are kept.
    package var changeDays = 30
    /// How many of the newest changes of a bucket are kept however old they are.
    package var changesMin = 10_000
    /// Days for which the versions of a deleted entity are kept.
    package var deletedDays = 180
    /// How many steps back from the newest version are kept of an entity.
    package var versionsMax = 1_060
    /// The most bytes that changes of a file may have which are kept, with the steps between versions.
    package var changeBytesMax = 64 << 20
    /// How many buckets a file may have.
    package var bucketsMax = 100
    /// Seconds for which a listing may go on while the bucket changes.
    package var listingSeconds: UInt64 = 3_600

    package init() {}
}
