/// The reason why bytes cannot be read as a property list, why a value in one is invalid, or why a value cannot be
/// written (`Spec/PropertyLists.md`, section 4).
public struct PropertyListError: Error, Hashable, Sendable {
    /// The kind of an error.
    public enum Code: String, Sendable {
        /// The bytes are not a property list, or break a rule of its form: nothing of them is read.
        case malformed
        /// It is larger, deeper or has more values than the limits allow: nothing of it is read, or written.
        case limitExceeded
        /// One value is invalid, or cannot be written. A reader continues and keeps it as ``PropertyList/refused(_:)``.
        case badValue
    }

    /// The part that an error is about, as far as it is known.
    public struct Place: Hashable, Sendable {
        /// The line of XML, from 1.
        public var line: Int?
        /// The distance from the first byte. Of XML in UTF-16 only the line is known.
        public var offset: Int?
        /// The number of the object in the binary form, from 0.
        public var object: Int?
        /// The keys and indices that lead to a value that cannot be written: `/body/0/params`.
        public var path: String?

        init(line: Int? = nil, offset: Int? = nil, object: Int? = nil, path: String? = nil) {
            (self.line, self.offset, self.object, self.path) = (line, offset, object, path)
        }
    }

    /// The kind of the error.
    public var code: Code
    /// The place in the document.
    public var place: Place
    /// A description of the fault, in words.
    public var reason: String

    init(_ code: Code, at place: Place = Place(), _ reason: String) {
        (self.code, self.place, self.reason) = (code, place, reason)
    }

    /// The error, in a container that is about to be written.
    func inside(_ key: String) -> PropertyListError {
        var error = self
        error.place.path = "/\(key)\(place.path ?? "")"
        return error
    }
}

extension PropertyListError: CustomStringConvertible {
    /// The place and the reason.
    public var description: String {
        let words = [
            place.path, place.line.map { "line \($0)" }, place.object.map { "object \($0)" },
            place.offset.map { "byte \($0)" },
        ]
        let text = words.compactMap { $0 }.joined(separator: ", ")
        return text.isEmpty ? reason : "\(text): \(reason)"
    }
}
