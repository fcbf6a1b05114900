public import AnabranchCore

/// The source of the objects that a query is about: a state, or anything that can be read like one.
public protocol ObjectSource {
    /// A class by its number; nil if there is none.
    func schema(of number: ClassID) -> ClassSchema?

    /// A class by its name, in UTF-8; nil if there is none.
    func schema(ofClass name: [UInt8]) -> ClassSchema?

    /// All classes of the source.
    var classes: [ClassSchema] { get }

    /// True if a top-level object exists.
    ///
    /// - Throws: `ApplyError` with the outcome `unavailable` when objects cannot be read; so do the other methods.
    func contains(_ object: ObjectReference) throws(ApplyError) -> Bool

    /// A top-level object; nil if it does not exist.
    func object(_ reference: ObjectReference) throws(ApplyError) -> StateObject?

    /// Calls `body` with each object of a class, in the order of their keys.
    func forEachObject(
        of classID: ClassID, _ body: (StateObject) throws(ApplyError) -> Void
    ) throws(ApplyError)
}

extension ObjectGraph: ObjectSource {}
