package import AnabranchCore
package import AnabranchQuery

/// A line of a file of query vectors: a schema, objects, and what the reference answers to queries about them.
package struct QueryVector {
    /// One query and its answer.
    package struct Case {
        package let query: String
        package let expected: Answer
        /// The text in which a client sends the query.
        package let canonical: String?
        /// The answer to that text.
        package let canonicalExpected: Answer?
    }

    /// The objects that a query matches, or the kind of its error.
    package enum Answer: Equatable, CustomStringConvertible {
        /// The JSON texts of the primary keys.
        case matches(Set<String>)
        case error(String)

        package var description: String {
            switch self {
            case .matches(let keys): "\(keys.count) objects: \(keys.sorted().joined(separator: " "))"
            case .error(let kind): "\(kind) error"
            }
        }
    }

    package let className: String
    package let state: ObjectGraph
    package let cases: [Case]

    /// Calls `body` with the number of each line of a file, from 1.
    package static func forEach(in path: String, body: (Int, QueryVector) throws -> Void) throws {
        try JSONLines.forEachLine(in: path) { number, line in
            let vector: QueryVector
            do {
                vector = try QueryVector(parsing: line)
            } catch {
                throw InputError(description: "\(path), line \(number): \(error)")
            }
            try body(number, vector)
        }
    }

    /// Reads a line.
    package init(parsing line: some Collection<UInt8>) throws {
        let json = try JSONValue(parsing: line)
        className = try json.member("class", \.string)
        state = try CanonicalState(
            schema: try json.member("schema", \.object), objects: try json.member("objects", \.object)
        ).graph()
        cases = try (json["queries"]?.array ?? []).map(Case.init)
    }
}

extension QueryVector.Case {
    fileprivate init(_ json: JSONValue) throws {
        query = try json.member("query", \.string)
        canonical = json["canonical"]?.string
        if let kind = json["error"]?.string {
            (expected, canonicalExpected) = (.error(kind), nil)
            return
        }
        expected = .matches(Set(try json.member("matches", \.array).map(\.encoded)))
        canonicalExpected = json["canonical_matches"]?.array.map { .matches(Set($0.map(\.encoded))) } ?? expected
    }
}

extension QueryVector {
    /// The answer of this engine to a text, and the query if there is no error.
    package func answer(to text: String) throws -> (answer: Answer, query: Query?) {
        do throws(QueryError) {
            let query = try Query(text, on: className, of: state)
            let keys = try query.objects(in: state).map { object in
                var text: [UInt8] = []
                JSONText.append(object.key ?? .null, .canonical, to: &text)
                return String(decoding: text, as: UTF8.self)
            }
            return (.matches(Set(keys)), query)
        } catch {
            return (.error(error.kind.rawValue), nil)
        }
    }

    /// The fault of the answers to a case, in words; nil if there is none.
    package func problem(of query: Case) throws -> String? {
        let (answer, built) = try answer(to: query.query)
        if answer != query.expected { return "expected: \(query.expected)\ngot:      \(answer)" }
        guard let built, let canonical = query.canonical else { return nil }
        if !Self.areEqual(built.canonicalText, canonical) {
            return "canonical text expected: \(canonical)\ngot:                     \(built.canonicalText)"
        }
        let (answerToCanonical, _) = try self.answer(to: canonical)
        guard answerToCanonical != query.canonicalExpected else { return nil }
        let expected = query.canonicalExpected.map { "\($0)" } ?? "nothing"
        return "of the canonical text \(canonical)\nexpected: \(expected)\ngot:      \(answerToCanonical)"
    }

    /// True if two texts are equal, comparing the members of lists after IN as sets.
    package static func areEqual(_ left: String, _ right: String) -> Bool {
        let (left, right) = (parts(of: left), parts(of: right))
        return left.words == right.words && left.lists == right.lists
    }

    /// A text without its lists after IN, and those lists as sets.
    private static func parts(of text: String) -> (words: [Substring], lists: [Set<Substring>]) {
        var words: [Substring] = []
        var lists: [Set<Substring>] = []
        var rest = text[...]
        while let list = rest.firstMatch(of: /IN \{((?:"[^"]*"|[^"}])*)\}/) {
            words.append(rest[..<list.range.lowerBound])
            lists.append(Set(list.output.1.matches(of: /(?:"[^"]*"|[^",])+/).map { $0.output.drop { $0 == " " } }))
            rest = rest[list.range.upperBound...]
        }
        return (words + [rest], lists)
    }
}

extension JSONValue {
    /// A required member of the given kind.
    func member<Value>(_ name: String, _ kind: KeyPath<JSONValue, Value?>) throws(InputError) -> Value {
        guard let value = self[name]?[keyPath: kind] else {
            throw InputError(description: "the key \"\(name)\" is missing, or of another kind")
        }
        return value
    }
}
