/// The place of a file or folder in a space: the names from the root down. `/` alone is the root.
public struct SpacePath: Hashable, Sendable, CustomStringConvertible {
    /// The names from the root down; none for the root. Names are equal if they look the same, however their letters
    /// are composed.
    public let components: [String]

    /// The folder that everything is in.
    public static let root = SpacePath(unchecked: [])

    /// The most bytes that a name has, in UTF-8.
    public static let nameBytesMax = 255

    init(unchecked components: [String]) { self.components = components }

    /// A path of names.
    /// - Throws: `SpaceError` with the code `badName` if one of them cannot be a name.
    public init(components: [String]) throws(SpaceError) {
        for name in components { try Self.check(name) }
        self.components = components
    }

    /// A path as a text: names that are separated by slashes. One at the beginning or at the end does not count.
    /// - Throws: `SpaceError` with the code `badName` if one of the names cannot be a name, such as `..`.
    public init(_ text: String) throws(SpaceError) {
        // By bytes: a slash and a mark that a name begins with are one character.
        var rest = Substring(text).utf8
        let slash = UInt8(ascii: "/")
        if rest.first == slash { rest = rest.dropFirst() }
        if rest.last == slash { rest = rest.dropLast() }
        try self.init(
            components: rest.isEmpty
                ? []
                : rest.split(separator: slash, omittingEmptySubsequences: false).map { String(Substring($0)) }
        )
    }

    /// The folder that it is in; nil for the root.
    public var parent: SpacePath? {
        components.isEmpty ? nil : SpacePath(unchecked: Array(components.dropLast()))
    }

    /// The last name; empty for the root.
    public var name: String { components.last ?? "" }

    /// The path of something in this folder.
    /// - Throws: `SpaceError` with the code `badName`.
    public func appending(_ name: String) throws(SpaceError) -> SpacePath {
        try Self.check(name)
        return child(name)
    }

    func child(_ name: String) -> SpacePath { SpacePath(unchecked: components + [name]) }

    /// True if another path is this one or below it.
    public func contains(_ other: SpacePath) -> Bool { other.components.starts(with: components) }

    /// True if an equal path has the same bytes.
    func isComposed(as other: SpacePath) -> Bool {
        zip(components, other.components).allSatisfy { $0.utf8.elementsEqual($1.utf8) }
    }

    /// The text, which begins with a slash.
    public var description: String { "/" + components.joined(separator: "/") }

    /// The reason why a text cannot be a name; nil if it can.
    static func fault(of name: String) -> String? {
        if name.isEmpty { return "a name cannot be empty" }
        if name == "." || name == ".." { return "'\(name)' cannot be a name" }
        if name.utf8.count > nameBytesMax { return "a name has at most \(nameBytesMax) bytes" }
        return name.utf8.contains { $0 == 0 || $0 == UInt8(ascii: "/") } ? "a name has no slash and no NUL" : nil
    }

    private static func check(_ name: String) throws(SpaceError) {
        if let fault = fault(of: name) { throw SpaceError(.badName, fault) }
    }
}

/// An error of a file space.
public struct SpaceError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The kind of an error.
    public enum Code: Sendable {
        /// There is no such file or folder.
        case notFound
        /// There is something with that name already.
        case exists
        /// It is a file where a folder is needed.
        case notFolder
        /// It is a folder where a file is needed.
        case isFolder
        /// A folder would be moved into itself.
        case wouldLoop
        /// The root cannot be moved or deleted, and no folder lies deeper than 255 of them.
        case notAllowed
        /// It cannot be a name.
        case badName
        /// The content is not on this device.
        case notCached
        /// The content is not on this device, and cannot be had now: the status has the issue.
        case unavailable
        /// The server has lost a part of the content, or has other bytes than it should.
        case damaged
        /// The handle, or the space, is closed.
        case closed
        /// There is an open handle of the file already.
        case alreadyOpen
        /// The content is not text in UTF-8.
        case notText
        /// A file is larger than 400 GB.
        case tooLarge
        /// The disk of this device is full.
        case storageFull
        /// The disk of this device cannot be read or written.
        case storageFailed
    }

    /// The kind of the error.
    public let code: Code
    /// The reason in words.
    public let reason: String

    init(_ code: Code, _ reason: String) { (self.code, self.reason) = (code, reason) }

    /// The reason.
    public var description: String { reason }
}
