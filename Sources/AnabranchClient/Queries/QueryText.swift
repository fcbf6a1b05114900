import AnabranchCore
import AnabranchQuery

/// A piece of a query in the language of `Spec/Query.md`, with the values that it names.
struct QueryText: Sendable {
    enum Part: Sendable {
        case text(String)
        case value(Payload)
        case values([Payload])
    }

    private(set) var parts: [Part]
    /// The error that was made when the text was built; nil if there was none.
    private(set) var error: ObjectError?

    /// The object that a condition is about: the name of a property follows it without a dot.
    static let root = QueryText(parts: [])

    private init(parts: [Part]) { self.parts = parts }

    init(_ text: String, error: ObjectError? = nil) {
        parts = [.text(text)]
        self.error = error
    }

    init(_ body: () throws(ObjectError) -> Part) {
        do throws(ObjectError) {
            parts = [try body()]
        } catch {
            parts = []
            self.error = error
        }
    }

    static func value(_ value: some SyncedValue) -> QueryText {
        QueryText { () throws(ObjectError) in .value(try value._content().payload) }
    }

    static func values(_ values: [some SyncedValue]) -> QueryText {
        QueryText { () throws(ObjectError) in
            .values(try values.map { value throws(ObjectError) in try value._content().payload })
        }
    }

    static func + (left: QueryText, right: QueryText) -> QueryText {
        var sum = left
        sum.parts += right.parts
        sum.error = left.error ?? right.error
        return sum
    }

    static func + (left: QueryText, right: String) -> QueryText { left + QueryText(right) }
    static func + (left: String, right: QueryText) -> QueryText { QueryText(left) + right }

    /// A text in which `$0`, `$1` … stand for the arguments.
    init(_ text: String, arguments: [any SyncedValue]) {
        self.init("")
        // By bytes, as the language does: a quotation mark with an accent after it is one.
        var rest = Array(text.utf8)[...], openQuote: UInt8?, plain: [UInt8] = []
        while let byte = rest.popFirst() {
            if let quote = openQuote {
                if byte == UInt8(ascii: "\\"), let next = rest.popFirst() {
                    plain += [byte, next]
                    continue
                }
                if byte == quote { openQuote = nil }
            } else if byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "'") {
                openQuote = byte
            } else if byte == UInt8(ascii: "$"), let digits = Self.digits(of: &rest) {
                guard let number = Int(digits), number < arguments.count else {
                    error = error ?? ObjectError(.badQuery, "$\(digits): there are \(arguments.count) values")
                    continue
                }
                self = self + String(decoding: plain, as: UTF8.self) + Self.any(arguments[number])
                plain = []
                continue
            }
            plain.append(byte)
        }
        self = self + String(decoding: plain, as: UTF8.self)
    }

    /// Takes the digits that come next; nil if there are none.
    private static func digits(of rest: inout ArraySlice<UInt8>) -> String? {
        let digits = rest.prefix { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
        rest.removeFirst(digits.count)
        return digits.isEmpty ? nil : String(decoding: digits, as: UTF8.self)
    }

    private static func any(_ value: any SyncedValue) -> QueryText {
        QueryText { () throws(ObjectError) in
            switch try value._content() {
            case .list(let elements): .values(elements.map(\.payload))
            case .set(let elements): .values(elements)
            case let content: .value(content.payload)
            }
        }
    }

    // MARK: Asking

    /// - Throws: `ObjectError` with the code `badQuery`.
    func query(
        on className: String, of source: some ObjectSource, _ options: QueryOptions = QueryOptions()
    ) throws(ObjectError) -> Query {
        if let error { throw error }
        var text = "", arguments: [QueryArgument] = []
        for part in parts {
            switch part {
            case .text(let words): text += words
            case .value(let payload):
                text += "$\(arguments.count)"
                arguments.append(.value(try Self.value(payload, of: source)))
            case .values(let payloads):
                text += "$\(arguments.count)"
                arguments.append(
                    .list(try payloads.map { payload throws(ObjectError) in try Self.value(payload, of: source) }))
            }
        }
        do throws(QueryError) {
            return try Query(text, on: className, of: source, arguments, options: options)
        } catch {
            throw ObjectError(
                error.kind == .unavailable ? .storeFailed : .badQuery, "\(className): \(error.reason) in \(text)")
        }
    }

    private static func value(_ payload: Payload, of source: some ObjectSource) throws(ObjectError) -> StateValue {
        if case .link(let className, let key) = payload {
            guard let target = source.schema(ofClass: className) else {
                throw ObjectError(.badQuery, "there is no class \(String(decoding: className, as: UTF8.self))")
            }
            return .link(ObjectReference(classID: target.number, key: key))
        }
        guard let value = StateValue(payload) else {
            throw ObjectError(.badQuery, "\(payload.type) is not a value of a query")
        }
        return value
    }
}

extension String {
    /// The name as it stands in a query.
    var queryName: String {
        var name = ""
        for character in self {
            switch character {
            case " ": name += "\\ "
            case "\n": name += "\\n"
            case "\r": name += "\\r"
            case "\t": name += "\\t"
            default: name.append(character)
            }
        }
        return name
    }
}
