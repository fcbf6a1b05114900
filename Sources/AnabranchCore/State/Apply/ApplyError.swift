/// The reason why a changeset cannot be applied to a state, and the place (`Spec/State.md`, part B). On the wire: error
/// 212.
public struct ApplyError: Error, Equatable, Sendable {
    /// The kind of an error, with the codes of the chapter as raw values.
    public enum Code: String, Sendable {
        /// The instruction does not fit the state: the reference reports a bad changeset.
        case invalid = "BAD"
        /// The reference raises another exception.
        case rejected = "ERR"
        /// The reference would stop or behave unpredictably.
        case undefined = "ABORT"
        /// A SetErase of null in a set of a nullable type other than Mixed: only states can do it, no client can
        /// download it (B9).
        case nullErasure = "NULL"
        /// The object would become larger than the server allows; a limit of the receiver, not of the format.
        case objectTooLarge = "LARGE"
        /// The changeset needs more of the state in memory than the receiver allows; no fault of the changeset.
        case loadsTooMuch = "MEMORY"
        /// Not the changeset's fault: the source of the objects failed. Never a reason to refuse a peer.
        case unavailable = "UNAVAILABLE"
    }

    /// The kind of the error.
    public let code: Code
    /// A description of the error for people.
    public let reason: String
    /// The name of the class that the instruction names, if it is known.
    public internal(set) var className: [UInt8]?
    /// The primary key of the object that the instruction names, if it names one.
    public internal(set) var object: PrimaryKey?
    /// The field that the instruction names, if it names one.
    public internal(set) var field: [UInt8]?
    /// The columns that a path instruction leads through: its field, and below it those of embedded objects, as far as
    /// they are known. Empty for other instructions.
    public internal(set) var columns: [ColumnName] = []
    /// The changeset's index in its arena.
    public internal(set) var changeset: ChangesetIndex?
    /// The number of the instruction among the changeset's live ones, from 0.
    public internal(set) var instruction: Int?
    /// True for an `unavailable` error that is permanent, because the data that was read is not what was written.
    public private(set) var isDamage = false
    /// True for an `unavailable` error that goes when the state is read anew: the rows belong to a newer one.
    package private(set) var isOutdated = false

    init(_ code: Code, _ reason: String) {
        self.code = code
        self.reason = reason
    }

    /// An error of the source of the objects: they could not be read.
    public static func unavailable(_ reason: String) -> ApplyError { ApplyError(.unavailable, reason) }

    /// The error that stands for one thrown by the source of the objects; an `ApplyError` stays as it is.
    init(reading error: any Error) { self = error as? ApplyError ?? .unavailable("\(error)") }

    /// A permanent `unavailable` error: the data that was read is not what was written.
    package static func damaged(_ reason: String) -> ApplyError {
        var error = ApplyError(.unavailable, reason)
        error.isDamage = true
        return error
    }

    /// An `unavailable` error of rows that somebody else has changed since.
    package static func outdated() -> ApplyError {
        var error = ApplyError(.unavailable, "somebody else has written the objects since")
        error.isOutdated = true
        return error
    }

    static let nullErasure = ApplyError(
        .nullErasure, "null cannot be taken out of a set of a nullable type but by clearing the set")

    static func objectTooLarge(_ size: Int, max: Int) -> ApplyError {
        ApplyError(.objectTooLarge, "the object would have \(size) bytes, more than the \(max) that it may have")
    }

    static func loadsTooMuch(max: Int) -> ApplyError {
        ApplyError(.loadsTooMuch, "the objects that it changes have more than \(max) bytes together")
    }

    static func invalid(_ reason: String) -> ApplyError { ApplyError(.invalid, reason) }
    static func rejected(_ reason: String) -> ApplyError { ApplyError(.rejected, reason) }
    static func undefined(_ reason: String) -> ApplyError { ApplyError(.undefined, reason) }
}

/// Instructions that a state can apply, but released clients cannot.
package struct ApplyRefusals: OptionSet, Sendable {
    package let rawValue: UInt8

    package init(rawValue: UInt8) { self.rawValue = rawValue }

    /// SetErase of null in a set of a nullable type, which fails with `nullErasure` (`Spec/State.md`, B9).
    package static let nullErasures = ApplyRefusals(rawValue: 1)
    /// The erasure of a dictionary entry that is not there, which some releases do not survive
    /// (`Spec/Protocol.md`, section 6.1).
    package static let absentErasures = ApplyRefusals(rawValue: 2)
    /// A link in a list of Mixed, or below one, over a link whose target is not there, which no release survives so
    /// far; null is ignored there (`Spec/State.md`, B5).
    package static let danglingOverwrites = ApplyRefusals(rawValue: 4)
}

/// Limits on how large changesets can make an object and how much of a state they can load.
package struct ApplyLimits: Sendable {
    /// The largest size that an object can grow to, in bytes (`Spec/State.md`, B11).
    package var objectBytesMax: Int
    /// The most of the state that can be read into memory, in bytes as stored.
    package var loadedBytesMax: Int

    package init(objectBytesMax: Int = .max, loadedBytesMax: Int = .max) {
        (self.objectBytesMax, self.loadedBytesMax) = (objectBytesMax, loadedBytesMax)
    }
}

/// A column, named as instructions name it.
public struct ColumnName: Hashable, Sendable {
    /// The name of the class, without the prefix of its table.
    public let className: [UInt8]
    /// The name of the column.
    public let field: [UInt8]

    package init(className: [UInt8], field: [UInt8]) {
        self.className = className
        self.field = field
    }
}

extension ApplyError: CustomStringConvertible {
    /// The place and the reason, for example `Task[1].title: no such field`. Long names are cut.
    public var description: String {
        var place = className.map { String(excerptOf: $0) } ?? ""
        if let object { place += "[\(object)]" }
        if let field { place += "." + String(excerptOf: field) }
        return place.isEmpty ? reason : "\(place): \(reason)"
    }
}

extension PrimaryKey: CustomStringConvertible {
    /// The key for people: `null`, `5`, `"text"`, `{2-0}`, an ObjectId as 24 hexadecimal digits, a UUID as Foundation
    /// writes it. A long text is cut.
    public var description: String {
        switch self {
        case .null: "null"
        case .int(let value): "\(value)"
        case .string(let text): "\"\(String(excerptOf: text))\""
        case .globalKey(let key): "{\(String(key.high, radix: 16))-\(String(key.low, radix: 16))}"
        case .objectID(let value): Hex.encode(value.bytes)
        case .uuid(let value): value.description.uppercased()
        }
    }
}
