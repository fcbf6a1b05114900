/// Bytes as choices, one after the other. Beyond their end all are 0.
struct Choices {
    private var rest: ArraySlice<UInt8>

    init(_ bytes: [UInt8]) { rest = bytes[...] }

    var isAtEnd: Bool { rest.isEmpty }

    mutating func byte() -> UInt8 { rest.popFirst() ?? 0 }

    /// At least 0, less than `bound`, which is from 1 to 256.
    mutating func below(_ bound: Int) -> Int { Int(byte()) % bound }

    mutating func pick<Value>(_ values: [Value]) -> Value { values[below(values.count)] }

    /// The next `count` bytes, or as many as are left.
    mutating func bytes(_ count: Int) -> [UInt8] {
        defer { rest = rest.dropFirst(count) }
        return Array(rest.prefix(count))
    }
}
