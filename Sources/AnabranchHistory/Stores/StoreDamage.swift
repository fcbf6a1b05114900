package import AnabranchCore

/// A part of a store that contradicts the guarantees of the store.
package struct StoreDamage: Equatable, Sendable, CustomStringConvertible {
    /// A kind of damage.
    package enum Kind: String, Sendable {
        /// The structure of the database itself.
        case database
        /// A record is not what was written.
        case checksum
        /// Versions or idents are missing.
        case continuity
        /// Sizes do not add up.
        case size
        /// A number is out of its range.
        case value
        /// Cursors of a client file contradict the log or each other.
        case cursor
        /// A reciprocal changeset exists where there cannot be one.
        case reciprocal
        /// A changeset cannot be decoded.
        case changeset
        /// The stored conflict keys are not those of the log.
        case conflictKeys
        /// A bootstrap generation is not what was written, or is missing.
        case generation
        /// A segment of the archive is not what was written, or does not fit the segments next to it.
        case archive
        /// The view of a client is not what was written, or is missing.
        case view
        /// The stored state is not the one that the log produces.
        case state
    }

    /// The kind of the damage.
    package var kind: Kind
    /// The place of the damage: a record of the file.
    package var place: String
    /// A description of what was found there.
    package var finding: String

    /// - Parameters:
    ///   - kind: the kind of the damage.
    ///   - place: a record of the file.
    ///   - finding: what was found there.
    package init(kind: Kind, place: String, finding: String) {
        (self.kind, self.place, self.finding) = (kind, place, finding)
    }

    /// The whole damage in one line.
    package var description: String { "\(kind.rawValue) damage, \(place): \(finding)" }
}

/// The result of checking one synced file.
package struct VerifiedFile: Equatable, Sendable {
    /// The name of the file.
    package var path: VirtualPath
    /// The number of entries in its log.
    package var entryCount = 0
    /// The newest version up to which nothing is wrong with the log.
    package var goodVersion: ServerVersion = 0
    /// Changesets of the log, in bytes.
    package var logBytes: UInt64 = 0
    /// The number of entries in its archive.
    package var archivedCount = 0
    /// Client files, without the reserved rows.
    package var clientFileCount = 0
    /// Reciprocal changesets of all its client files.
    package var reciprocalCount = 0
    /// Instructions of the log that cannot be applied, and so have no part in the state. Only a log that was written
    /// by a relay has some.
    package var skippedCount = 0
    /// The damage in the file; empty if there is none.
    package var damages: [StoreDamage] = []

    /// Nothing was found yet.
    package init(path: VirtualPath) { self.path = path }
}
