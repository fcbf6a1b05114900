/// The reason why a file cannot be read, or not all of it (`Spec/RealmFile.md`, section 4).
public struct RealmFileError: Error, Hashable, Sendable {
    /// The kind of an error.
    public enum Code: String, Sendable {
        /// It is not a Realm file; an encrypted one without its key looks the same.
        case noRealmFile
        /// It is encrypted, and there is no key.
        case keyMissing
        /// The key does not fit the file, or there is one for a file that is not encrypted.
        case wrongKey
        /// A part of the file is missing.
        case truncated
        /// It was written on a machine whose numbers begin with their highest byte.
        case byteOrder
        /// Its format is not read.
        case format
        /// It breaks a rule of the format.
        case damaged
        /// The output would be longer than it may be.
        case outputLimit
    }

    /// The part of the file that an error is about, as far as it is known.
    public struct Place: Hashable, Sendable {
        /// The array, in bytes from the start of the file; in an encrypted one, of the decrypted data.
        public var offset: Int?
        /// The class; for a table that is not a class, the name of the table.
        public var className: String?
        /// The property of the class.
        public var property: String?
        /// The key of the object, as an export has it.
        public var object: String?

        init(offset: Int? = nil, className: String? = nil, property: String? = nil, object: String? = nil) {
            (self.offset, self.className, self.property, self.object) = (offset, className, property, object)
        }
    }

    /// The kind of the error.
    public var code: Code
    /// The place in the file.
    public var place: Place
    /// A description of the fault, in words.
    public var reason: String

    init(_ code: Code, at place: Place = Place(), _ reason: String) {
        (self.code, self.place, self.reason) = (code, place, reason)
    }

    static func damaged(at offset: Int? = nil, _ reason: String) -> RealmFileError {
        RealmFileError(.damaged, at: Place(offset: offset), reason)
    }

    /// The error, completed with the outer parts of its place.
    func within(_ outer: Place) -> RealmFileError {
        var error = self
        error.place.offset = place.offset ?? outer.offset
        error.place.className = place.className ?? outer.className
        error.place.property = place.property ?? outer.property
        error.place.object = place.object ?? outer.object
        return error
    }
}

extension RealmFileError: CustomStringConvertible {
    /// The place and the reason.
    public var description: String {
        let words = [
            place.className.map { "class \($0)" }, place.property.map { "property \($0)" },
            place.object.map { "object \($0)" }, place.offset.map { "byte \($0)" },
        ]
        let text = words.compactMap { $0 }.joined(separator: ", ")
        return text.isEmpty ? reason : "\(text): \(reason)"
    }
}
