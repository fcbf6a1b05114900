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
        var rest = Substring(text), isInQuotes: Character?
        var plain = ""
        while let character = rest.popFirst() {
            if let quote = isInQuotes {
                if character == "\\", let next = rest.popFirst() {
                    plain += [character, next]
                    continue
                }
                if character == quote { isInQuotes = nil }
            } else if character == "\"" || character == "'" {
                isInQuotes = character
            } else if character == "$", let first = rest.first, first.isNumber {
                let digits = rest.prefix { $0.isNumber }
                rest = rest.dropFirst(digits.count)
                guard let number = Int(digits), number < arguments.count else {
                    error = error ?? ObjectError(.badQuery, "$\(digits): there are \(arguments.count) values")
                    continue
                }
                self = self + plain + Self.any(arguments[number])
                plain = ""
                continue
            }
            plain.append(character)
        }
        self = self + plain
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
            throw ObjectError(.badQuery, "\(payload.type) is no value of a query")
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
