/// Writes changesets from scratch, for inputs of benchmarks and tests: a small encoder that shares no code with the one
/// it puts to the test. Names are interned in the order of their first use and stand before all instructions.
/// Format: `Spec/Changeset.md`.
package struct ChangesetWriter {
    /// A primary key.
    package enum Key {
        case int(Int)
        case string(String)
    }

    /// Opcodes, which stand at the start of each instruction.
    package enum Opcode: UInt8 {
        case addTable = 0, eraseTable, createObject, eraseObject, update, addInteger, addColumn, eraseColumn
        case arrayInsert, arrayMove, arrayErase, clear, setInsert, setErase
    }

    private var indices: [String: Int] = [:]
    private var head: [UInt8] = []
    private var body: [UInt8] = []

    package var bytes: [UInt8] { head + body }

    // MARK: Operands

    package mutating func write(_ opcode: Opcode) { body.append(opcode.rawValue) }

    package mutating func write(_ number: Int) { Self.append(number, to: &body) }

    package mutating func write(_ flag: Bool) { body.append(flag ? 1 : 0) }

    package mutating func write(raw bytes: [UInt8]) { body += bytes }

    package mutating func write(counted bytes: [UInt8]) {
        write(bytes.count)
        body += bytes
    }

    package mutating func write(name: String) { write(intern(name)) }

    package mutating func write(_ key: Key) {
        switch key {
        case .int(let number):
            write(1)
            write(number)
        case .string(let text):
            write(3)
            write(name: text)
        }
    }

    @discardableResult
    package mutating func intern(_ name: String) -> Int {
        if let index = indices[name] { return index }
        let index = indices.count
        indices[name] = index
        head.append(63)
        Self.append(index, to: &head)
        Self.append(name.utf8.count, to: &head)
        head += name.utf8
        return index
    }

    private static func append(_ number: Int, to bytes: inout [UInt8]) {
        var rest = number < 0 ? ~number : number
        while rest > 63 {
            bytes.append(0x80 | UInt8(rest & 0x7F))
            rest >>= 7
        }
        bytes.append(UInt8(rest) | (number < 0 ? 0x40 : 0))
    }
}

// MARK: Instructions of the benchmark cases

extension ChangesetWriter {
    package mutating func createObject(_ className: String, _ key: Int) {
        write(.createObject)
        object(className, key)
    }

    package mutating func update(_ className: String, _ key: Int, _ field: String, to value: Int) {
        write(.update)
        place(className, key, field)
        payload(value)
        write(false)
    }

    package mutating func updateLink(
        _ className: String, _ key: Int, _ field: String, to target: (class: String, key: Int)
    ) {
        write(.update)
        place(className, key, field)
        write(9)
        object(target.class, target.key)
        write(false)
    }

    package mutating func addTable(_ className: String, primaryKey: String) {
        write(.addTable)
        write(name: className)
        write(0)
        write(name: primaryKey)
        write(1)
        write(false)
    }

    /// Adds an Int column. The empty name is interned first: clients' tables have it, though no byte refers to it.
    package mutating func addColumn(_ className: String, _ field: String) {
        intern("")
        write(.addColumn)
        write(name: className)
        write(name: field)
        write(1)
        write(false)
        write(0)
    }

    package mutating func eraseColumn(_ className: String, _ field: String) {
        write(.eraseColumn)
        write(name: className)
        write(name: field)
    }

    private mutating func object(_ className: String, _ key: Int) {
        write(name: className)
        write(.int(key))
    }

    private mutating func place(_ className: String, _ key: Int, _ field: String) {
        object(className, key)
        write(name: field)
        write(0)
    }

    package mutating func payload(_ value: Int) {
        write(1)
        write(value)
    }
}

/// One list in one object, as the benchmarks use it: the instructions on it, and its size.
package struct ListWriter {
    package var className = "Doc"
    package var key = 1
    package var field = "items"
    /// The number of elements after everything written so far.
    package var size: Int

    package mutating func insert(_ value: Int, at index: Int, to changeset: inout ChangesetWriter) {
        start(.arrayInsert, index, of: &changeset)
        changeset.payload(value)
        changeset.write(size)
        size += 1
    }

    package mutating func erase(at index: Int, to changeset: inout ChangesetWriter) {
        start(.arrayErase, index, of: &changeset)
        changeset.write(size)
        size -= 1
    }

    package func move(from index: Int, to destination: Int, to changeset: inout ChangesetWriter) {
        start(.arrayMove, index, of: &changeset)
        changeset.write(destination)
        changeset.write(size)
    }

    package func set(_ value: Int, at index: Int, to changeset: inout ChangesetWriter) {
        start(.update, index, of: &changeset)
        changeset.payload(value)
        changeset.write(size)
    }

    private func start(_ opcode: ChangesetWriter.Opcode, _ index: Int, of changeset: inout ChangesetWriter) {
        changeset.write(opcode)
        changeset.write(name: className)
        changeset.write(.int(key))
        changeset.write(name: field)
        changeset.write(1)
        changeset.write(index)
    }
}
