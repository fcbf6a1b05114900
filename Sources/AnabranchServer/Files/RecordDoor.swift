package import AnabranchHistory

/// A wire whose clients keep no log of their own: the server keeps records about the objects that they share with
/// everybody else (`Spec/Doors.md`).
package protocol RecordDoor: Sendable {
    /// The observer of the entries of a file of partition-based sync; nil if the door has nothing to do with it.
    func observer(of path: VirtualPath) -> (any RecordObserver)?

    /// The name by which operators know the door, such as `simperium`.
    var name: String { get }

    /// The number of the door: the space of its records.
    var space: UInt16 { get }

    /// The names of the kinds of its records, by their numbers.
    var kindNames: [UInt8: String] { get }

    /// The number of clients that are connected now.
    var connectionCount: Int { get }
}
