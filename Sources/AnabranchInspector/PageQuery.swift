import AnabranchCore
import AnabranchHistory
import AnabranchServer
import Foundation

/// The query of a page's address.
struct PageQuery {
    private var values: [String: String] = [:]

    init(_ query: String) throws(PageError) {
        for pair in query.split(separator: "&") {
            let parts = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard let value = parts.last?.replacing("+", with: " ").removingPercentEncoding, parts.count == 2,
                values.updateValue(value, forKey: String(parts[0])) == nil
            else { throw .badRequest("the address cannot be read") }
        }
    }

    /// A text; nil if it is missing or empty.
    subscript(name: String) -> String? { values[name].flatMap { $0.isEmpty ? nil : $0 } }

    func text(_ name: String) throws(PageError) -> String {
        guard let text = values[name] else { throw .badRequest("\(name) is missing") }
        return text
    }

    /// A number within a range; `usual` if it is missing.
    func number(_ name: String, usual: UInt64? = nil, _ range: ClosedRange<UInt64>) throws(PageError) -> UInt64 {
        guard let word = self[name] else {
            guard let usual else { throw .badRequest("\(name) is missing") }
            return usual
        }
        guard let number = UInt64(word), range.contains(number) else {
            throw .badRequest("\(name) has to be \(range.lowerBound) to \(range.upperBound)")
        }
        return number
    }

    /// A version of a log; nil if it is missing: the newest one.
    func version(_ name: String) throws(PageError) -> ServerVersion? {
        guard self[name] != nil else { return nil }
        return ServerVersion(rawValue: try number(name, 0...UInt64(Int64.max)))
    }

    func path() throws(PageError) -> VirtualPath {
        guard let path = VirtualPath(description: try text("path")) else {
            throw .badRequest("path has to be as the list of files shows it")
        }
        return path
    }

    /// The key of an object, as JSON.
    func key() throws(PageError) -> PrimaryKey {
        guard let json = try? JSONValue(parsing: Array(try text("key").utf8)), let key = PrimaryKey(exported: json)
        else { throw .badRequest("key has to be as lines of an export have it") }
        return key.normalised
    }
}

extension EndpointRequest {
    /// The body, which has to be a JSON object.
    func object() throws(PageError) -> JSONValue {
        guard case .whole(let bytes) = body, let value = try? JSONValue(parsing: bytes), value.members != nil else {
            throw .badRequest("the body is not a JSON object")
        }
        return value
    }
}

/// The members of a JSON object, whose values are JSON already.
func jsonObject(_ members: KeyValuePairs<String, String>) -> String {
    "{" + members.map { "\(JSONText.quoted($0.key)):\($0.value)" }.joined(separator: ",") + "}"
}

func jsonArray(_ elements: some Sequence<String>) -> String { "[" + elements.joined(separator: ",") + "]" }

/// Bytes as JSON text; those that are no UTF-8 are replaced.
func jsonText(_ bytes: some Collection<UInt8>) -> String { JSONText.quoted(String(decoding: bytes, as: UTF8.self)) }

func jsonText(_ text: String?) -> String { text.map(JSONText.quoted) ?? "null" }

extension PrimaryKey {
    /// The key as lines of an export have it.
    var json: String {
        var text: [UInt8] = []
        JSONText.append(self, .exact, to: &text)
        return String(decoding: text, as: UTF8.self)
    }
}
