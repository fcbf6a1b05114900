/// The name of a member of an object. Two are equal if their bytes are: of a `String`, "é" is equal to "e\u{301}".
package struct JSONName: Hashable, Comparable, Sendable {
    package let text: String

    package init(_ text: String) { self.text = text }

    package var utf8: String.UTF8View { text.utf8 }

    package static func == (left: JSONName, right: JSONName) -> Bool { left.utf8.elementsEqual(right.utf8) }

    package static func < (left: JSONName, right: JSONName) -> Bool { left.utf8.lexicographicallyPrecedes(right.utf8) }

    package func hash(into hasher: inout Hasher) {
        var text = text
        text.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
    }
}

extension JSONName: ExpressibleByStringLiteral, CustomStringConvertible {
    package init(stringLiteral value: String) { text = value }
    package var description: String { text }
}

extension [JSONName: JSONValue] {
    package subscript(name: String) -> JSONValue? { self[JSONName(name)] }
}
