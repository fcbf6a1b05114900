public import AnabranchCore

/// A value of a property that a merge has discarded in favour of another (`Spec/Explain.md`, section 5).
public struct LostValue: Sendable {
    /// The object that has the property.
    public let object: ObjectAddress
    /// The name of the property, in UTF-8.
    public let field: [UInt8]
    /// The discarded value.
    public let value: Payload
    /// The author of the discarded value.
    public let author: Author
    /// The rule by which it was lost.
    public let rule: MergeRule
    /// The author of the change that won.
    public let winner: Author
}

/// The reason why a lost value cannot be written again.
public struct RestorationError: Error, CustomStringConvertible, Sendable {
    /// A sentence for people.
    public let description: String
}

extension Explanation {
    /// The values of whole properties that were lost when the version was merged: its own, and those that it overruled.
    /// Of several on one property the one that was written last comes last.
    public var lostValues: [LostValue] {
        var found: [LostValue] = []
        for effect in effects {
            let isOwn = effect.own.after == nil
            let lost = isOwn ? effect.own.before : effect.other.before
            guard isOwn || effect.other.after == nil, let object = lost.object, let field = lost.field,
                let value = lost.propertyValue
            else { continue }
            found.append(
                LostValue(
                    object: object, field: field, value: value, author: isOwn ? author : effect.author,
                    rule: effect.rule, winner: isOwn ? effect.author : author))
        }
        return found
    }
}

extension WriteTransaction {
    /// Writes a lost value again, as a change of this transaction.
    ///
    /// - Throws: `RestorationError` if the object is gone; `ApplyError` if the property is gone or has another type, or
    ///   the value links to an object that is gone.
    public func restore(_ lost: LostValue) throws {
        let (className, field) = (
            String(decoding: lost.object.className, as: UTF8.self), String(decoding: lost.field, as: UTF8.self)
        )
        guard classNames.contains(className), let object = try object(className, key: lost.object.key) else {
            throw RestorationError(description: "the object is gone: it was erased later")
        }
        try object.set(field, to: lost.value)
    }
}
