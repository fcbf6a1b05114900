package import AnabranchHistory

/// A wire whose clients keep no log of their own: the server keeps records about the objects that they share with
/// everybody else (`Spec/Doors.md`).
package protocol RecordDoor: Sendable {
    /// The observer of the entries of a file of partition-based sync; nil if the door has nothing to do with it.
    func observer(of path: VirtualPath) -> (any RecordObserver)?
}
