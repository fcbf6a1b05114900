/// Writes changesets by the grammar of `Spec/Changeset.md`, strings first. All objects are of class "T" with an integer
/// key, a field "n" that holds an integer, and a field "l" that holds a list of integers.
struct ChangesetBuilder {
    private var strings: [String] = []
    private var body: [UInt8] = []

    var isEmpty: Bool { body.isEmpty }

    var bytes: [UInt8] {
        guard !body.isEmpty else { return [] }
        var result: [UInt8] = []
        for (index, string) in strings.enumerated() {
            result += [63] + integer(Int64(index)) + integer(Int64(string.utf8.count)) + Array(string.utf8)
        }
        return result + body
    }

    mutating func addTable(_ className: String = "T") {
        body += [0] + name(className) + [0] + name("_id") + [1, 0]
    }

    /// The class and its fields, as each client's first transaction declares them.
    static let schema: [UInt8] = {
        var builder = ChangesetBuilder()
        builder.addTable()
        builder.body += [6] + builder.name("T") + builder.name("n") + [1, 0, 0]
        builder.body += [6] + builder.name("T") + builder.name("l") + [1, 0, 1]
        return builder.bytes
    }()

    mutating func eraseTable(_ className: String = "T") { body += [1] + name(className) }

    mutating func addColumn(_ field: String, linkTo target: String, in className: String = "T") {
        body += [6] + name(className) + name(field) + [9, 1, 0] + name(target)
    }

    mutating func eraseColumn(_ field: String) { body += [7] + name("T") + name(field) }

    mutating func create(_ object: Int64, in className: String = "T") {
        body += [2] + name(className) + key(object)
    }

    mutating func erase(_ object: Int64) { body += [3] + name("T") + key(object) }

    mutating func set(_ object: Int64, to value: Int64, field: String = "n") {
        body += [4] + head(object, field) + [0, 1] + integer(value) + [0]
    }

    mutating func setNull(_ object: Int64, field: String) { body += [4] + head(object, field) + [0, 0, 0] }

    mutating func add(_ object: Int64, amount: Int64) { body += [5] + head(object, "n") + [0] + integer(amount) }

    mutating func listSet(_ object: Int64, at index: Int, to value: Int64, size: Int) {
        body += [4] + head(object, "l") + path(index) + [1] + integer(value) + integer(Int64(size))
    }

    mutating func listInsert(_ object: Int64, at index: Int, value: Int64, size: Int) {
        body += [8] + head(object, "l") + path(index) + [1] + integer(value) + integer(Int64(size))
    }

    mutating func listMove(_ object: Int64, from index: Int, to destination: Int, size: Int) {
        body += [9] + head(object, "l") + path(index) + integer(Int64(destination)) + integer(Int64(size))
    }

    mutating func listErase(_ object: Int64, at index: Int, size: Int) {
        body += [10] + head(object, "l") + path(index) + integer(Int64(size))
    }

    /// A changeset that sets field "n" of an object.
    static func setting(_ object: Int64, to value: Int64) -> [UInt8] {
        var builder = ChangesetBuilder()
        builder.set(object, to: value)
        return builder.bytes
    }

    private mutating func name(_ string: String) -> [UInt8] {
        if let index = strings.firstIndex(of: string) { return integer(Int64(index)) }
        strings.append(string)
        return integer(Int64(strings.count - 1))
    }

    private mutating func head(_ object: Int64, _ field: String) -> [UInt8] {
        name("T") + key(object) + name(field)
    }

    private func key(_ object: Int64) -> [UInt8] { [1] + integer(object) }

    private func path(_ index: Int) -> [UInt8] { [1] + integer(Int64(index)) }

    private func integer(_ value: Int64) -> [UInt8] {
        var rest = value < 0 ? ~value : value
        var result: [UInt8] = []
        while rest > 63 {
            result.append(0x80 | UInt8(rest & 0x7f))
            rest >>= 7
        }
        return result + [UInt8(rest) | (value < 0 ? 0x40 : 0)]
    }
}
