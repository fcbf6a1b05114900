import AnabranchCore

/// A JSON value and its place, so that each error can name it.
struct JSONNode {
    let value: JSONValue
    let file: String
    /// The way from the file's root.
    let path: String

    init(_ value: JSONValue, file: String, path: String = "") {
        self.value = value
        self.file = file
        self.path = path
    }

    init(parsing file: AppFile) throws(RuleError) {
        do throws(JSONError) {
            self.init(try JSONValue(parsing: file.bytes), file: file.path)
        } catch {
            let before = file.bytes.prefix(error.offset)
            let line = before.count { $0 == UInt8(ascii: "\n") } + 1
            let column = before.reversed().prefix { $0 != UInt8(ascii: "\n") }.count + 1
            let place = "line \(line), column \(column)"
            throw RuleError(file: file.path, place: place, reason: "not JSON: \(error.reason)")
        }
    }

    func error(_ reason: String) -> RuleError { RuleError(file: file, place: path, reason: reason) }

    // MARK: Members

    /// A member of an object; nil if it is not there or null.
    subscript(key: String) -> JSONNode? {
        guard let value = value[key], value != .null else { return nil }
        return JSONNode(value, file: file, path: path.isEmpty ? key : "\(path).\(key)")
    }

    /// The members of an object in the order of their names.
    func members() throws(RuleError) -> [(key: String, node: JSONNode)] {
        guard let members = value.members else { throw error("an object is expected") }
        return members.sorted { $0.key < $1.key }.map { key, value in
            (key.text, JSONNode(value, file: file, path: path.isEmpty ? key.text : "\(path).\(key)"))
        }
    }

    /// The elements of an array.
    func elements() throws(RuleError) -> [JSONNode] {
        guard let values = value.array else { throw error("an array is expected") }
        return values.enumerated().map { JSONNode($1, file: file, path: "\(path)[\($0)]") }
    }

    /// Names the members that are not known: they have no effect.
    func reportUnknown(_ known: Set<String>, in notices: NoticeList) throws(RuleError) {
        for (key, node) in try members() where !known.contains(key) {
            notices.add(.unknown, file, "\(node.path): this key is not known and has no effect")
        }
    }

    // MARK: Values

    func string() throws(RuleError) -> String {
        guard let string = value.string else { throw error("a string is expected") }
        return string
    }

    func bool() throws(RuleError) -> Bool {
        guard let bool = value.bool else { throw error("true or false is expected") }
        return bool
    }

    func integer() throws(RuleError) -> Int64 {
        guard let integer = value.integer else { throw error("a whole number is expected") }
        return integer
    }

    func strings() throws(RuleError) -> [String] {
        var strings: [String] = []
        for element in try elements() { strings.append(try element.string()) }
        return strings
    }
}

/// A file of an app's configuration.
package struct AppFile: Hashable, Sendable {
    /// The path from the app's folder, with slashes.
    package let path: String
    /// The content of the file.
    package let bytes: [UInt8]

    /// A file at a path of an app.
    package init(path: String, bytes: some Sequence<UInt8>) {
        self.path = path
        self.bytes = Array(bytes)
    }
}
