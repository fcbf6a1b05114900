/// A string that is what its bytes are. Those of `String` are equal if they look the same: "é" is "e\u{301}", and "K"
/// the Kelvin sign. Names that come from outside, and queries, are keys of this type.
package struct ExactString: Hashable, Comparable, Sendable {
    package let text: String

    package init(_ text: String) { self.text = text }

    package var utf8: String.UTF8View { text.utf8 }

    package static func == (left: ExactString, right: ExactString) -> Bool { left.text.hasBytes(of: right.text) }

    package static func < (left: ExactString, right: ExactString) -> Bool { left.text.precedes(right.text) }

    package func hash(into hasher: inout Hasher) {
        var text = text
        text.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
    }
}

extension ExactString: ExpressibleByStringLiteral, CustomStringConvertible {
    package init(stringLiteral value: String) { text = value }
    package var description: String { text }
}

/// The name of a member of an object.
package typealias JSONName = ExactString

extension [JSONName: JSONValue] {
    package subscript(name: String) -> JSONValue? { self[JSONName(name)] }
}

// MARK: - Strings as they are

extension String {
    /// True if both have the same bytes.
    package func hasBytes(of other: String) -> Bool {
        var (text, other) = (self, other)
        return text.withUTF8 { bytes in
            other.withUTF8 { UnsafeRawBufferPointer(bytes).hasBytes(of: UnsafeRawBufferPointer($0)) }
        }
    }

    /// True if the bytes of the text come before those of another one.
    package func precedes(_ other: String) -> Bool {
        var (text, other) = (self, other)
        return text.withUTF8 { bytes in
            other.withUTF8 { UnsafeRawBufferPointer(bytes).precedes(UnsafeRawBufferPointer($0)) }
        }
    }

    /// The text with a mark before each of some characters of ASCII; before each of them itself if there is no mark.
    /// `replacing` would pass over one that an accent follows: both are one `Character`.
    package func escaping(_ characters: String, with mark: UInt8? = nil) -> String {
        String(decoding: utf8.flatMap { characters.utf8.contains($0) ? [mark ?? $0, $0] : [$0] }, as: UTF8.self)
    }
}

extension Optional<String> {
    /// True if both are nil, or have the same bytes.
    package func hasBytes(of other: String?) -> Bool {
        guard let text = self, let other else { return self == nil && other == nil }
        return text.hasBytes(of: other)
    }
}

extension Dictionary where Key == String {
    /// The value of the key with these bytes; of keys that look alike, a dictionary has only one.
    package subscript(exactly key: String) -> Value? {
        index(forKey: key).flatMap { self[$0].key.hasBytes(of: key) ? self[$0].value : nil }
    }
}

extension Set<String> {
    /// True if the member with these bytes is in the set; of members that look alike, a set has only one.
    package func contains(exactly member: String) -> Bool {
        firstIndex(of: member).map { self[$0].hasBytes(of: member) } ?? false
    }
}
