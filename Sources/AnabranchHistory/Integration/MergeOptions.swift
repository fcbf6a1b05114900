package import AnabranchCore

/// The rules and limits for merging uploads with the log.
package struct MergeOptions: Sendable {
    /// The strategy of the merge. Merging every pair is the definition, for comparison.
    package var strategy = MergeStrategy.indexed
    /// The rule for uploads that take classes and columns away.
    package var destructiveSchema = DestructiveSchema.refuse
    /// True if a class may be used in the changeset that replaces it: for recorded histories that no client loads.
    package var allowsReplacedClasses = false
    /// The memory that an uploaded changeset may occupy when it is decoded, in bytes.
    package var decodedBytesMax = 512 << 20
    /// The memory that the log entries which an upload is merged with may occupy, in bytes.
    package var localBytesMax = 1 << 30
    /// The largest size to which uploads can bring an object, in bytes (`Spec/State.md`, B11).
    package var objectBytesMax = Int.max
    /// The size of the changesets that are merged and committed together, in bytes; the last one may exceed it. The
    /// rest of the uploads follows in further commits.
    package var commitBytesMax = 1 << 20
    /// The size of objects in memory, in bytes, with which the commit ends as well.
    package var loadedBytesMax = 64 << 20
    /// The size of the objects that changesets applied together may need, in bytes.
    package var appliedBytesMax = 512 << 20
    /// Watches the uploads, if the store remembers them.
    var watch: UploadWatch?
}
