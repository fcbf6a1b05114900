public import AnabranchCore
import AnabranchHistory

/// An object that two states do not have alike (`Spec/Explain.md`, section 4).
public struct ObjectDifference: Sendable {
    /// The class and key of the object.
    public let object: ObjectAddress
    /// The properties in the older state, by name, as an export has them; all of them if the object was erased, and
    /// else those that differ. Nil if the object is new.
    public let before: [[UInt8]: [UInt8]]?
    /// The same in the newer state; nil if the object was erased.
    public let after: [[UInt8]: [UInt8]]?
}

extension ObjectGraph {
    /// Calls `body` with each object that an older state does not have alike, class by class.
    ///
    /// - Throws: What `body` throws; `storeFailed` or `storeDamaged` when objects cannot be read.
    public func forEachDifference(
        since older: ObjectGraph, _ body: (ObjectDifference) throws -> Void
    ) throws {
        let texts = (before: ValueTexts(of: older), after: ValueTexts(of: self))
        let names = Set((older.classes + classes).filter { $0.kind != .embedded }.map(\.name))
        for name in names.sorted(by: { $0.lexicographicallyPrecedes($1) }) {
            if let schema = schema(ofClass: name) {
                let olderClass = older.schema(ofClass: name)?.number
                try forEachExisting(schema.number) { object, key in
                    var before: [[UInt8]: [UInt8]]?
                    if let olderClass {
                        before = try older.existing(ObjectReference(classID: olderClass, key: key))
                            .map(texts.before.fields)
                    }
                    let after = texts.after.fields(of: object), address = ObjectAddress(name, key)
                    guard let before else {
                        return try body(ObjectDifference(object: address, before: nil, after: after))
                    }
                    guard before != after else { return }
                    try body(
                        ObjectDifference(
                            object: address, before: before.filter { after[$0] != $1 },
                            after: after.filter { before[$0] != $1 }))
                }
            }
            guard let olderClass = older.schema(ofClass: name)?.number else { continue }
            let number = schema(ofClass: name)?.number
            try older.forEachExisting(olderClass) { object, key in
                if let number, try existing(ObjectReference(classID: number, key: key)) != nil { return }
                let fields = texts.before.fields(of: object)
                try body(ObjectDifference(object: ObjectAddress(name, key), before: fields, after: nil))
            }
        }
    }

    private func forEachExisting(_ number: ClassID, _ body: (StateObject, PrimaryKey) throws -> Void) throws {
        var failure: (any Error)?
        do {
            try forEachObject(of: number, after: nil) { object in
                guard let key = object.key else { return true }
                do { try body(object, key) } catch { failure = error }
                return failure == nil
            }
        } catch {
            throw HistoryError(readingStateFailed: error)
        }
        if let failure { throw failure }
    }
}
