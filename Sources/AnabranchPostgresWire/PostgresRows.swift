#if canImport(CLibPQ)
import CLibPQ

/// The rows that a statement has returned, in the text form of PostgreSQL unless binary form was requested.
public final class PostgresRows {
    private let result: OpaquePointer

    init(_ result: OpaquePointer) { self.result = result }

    deinit { PQclear(result) }

    /// The number of rows.
    public var count: Int { Int(PQntuples(result)) }

    /// The number of columns.
    public var columnCount: Int { Int(PQnfields(result)) }

    /// The number of rows that were inserted, updated, deleted or copied; 0 for other statements.
    public var affected: Int { PQcmdTuples(result).flatMap { Int(String(cString: $0)) } ?? 0 }

    /// The bytes of a value as long as `body` runs; nil for a null, and for a place that is not there.
    public func withBytes<Value>(_ row: Int, _ column: Int, _ body: (UnsafeRawBufferPointer) throws -> Value) rethrows
        -> Value?
    {
        guard 0..<count ~= row, 0..<columnCount ~= column, PQgetisnull(result, Int32(row), Int32(column)) == 0,
            let start = PQgetvalue(result, Int32(row), Int32(column))
        else { return nil }
        let length = Int(PQgetlength(result, Int32(row), Int32(column)))
        return try body(UnsafeRawBufferPointer(start: start, count: length))
    }

    /// The bytes of a value; nil for a null, and for a place that is not there.
    public func bytes(_ row: Int, _ column: Int) -> [UInt8]? { withBytes(row, column) { [UInt8]($0) } }

    /// The text of a value; nil for a null, and for a place that is not there.
    public subscript(row: Int, column: Int) -> String? {
        withBytes(row, column) { String(decoding: $0, as: UTF8.self) }
    }
}

/// A parameter of a statement.
public enum PostgresValue: Sendable, Equatable, ExpressibleByStringLiteral, ExpressibleByIntegerLiteral,
    ExpressibleByNilLiteral
{
    /// No value.
    case null
    /// A value in the text form of its type.
    case text(String)
    /// A value in the text form of its type, as bytes, none of which may be 0.
    case utf8([UInt8])
    /// A value in the binary form of its type.
    case binary([UInt8])

    /// The text.
    public init(stringLiteral value: String) { self = .text(value) }
    /// The number as text.
    public init(integerLiteral value: Int64) { self = .text("\(value)") }
    /// No value.
    public init(nilLiteral: ()) { self = .null }

    /// Texts as an array, in the text form of arrays.
    public static func array(_ texts: some Sequence<String>) -> PostgresValue {
        var text: [UInt8] = [UInt8(ascii: "{")]
        for (position, element) in texts.enumerated() {
            if position > 0 { text.append(UInt8(ascii: ",")) }
            text.append(UInt8(ascii: "\""))
            for byte in element.utf8 {
                if byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\") { text.append(UInt8(ascii: "\\")) }
                text.append(byte)
            }
            text.append(UInt8(ascii: "\""))
        }
        return .utf8(text + [UInt8(ascii: "}")])
    }

    var isBinary: Bool { if case .binary = self { true } else { false } }

    /// The bytes as the library takes them: texts end with a 0.
    var content: [UInt8]? {
        switch self {
        case .null: nil
        case .text(let text): Array(text.utf8) + [0]
        case .utf8(let bytes): bytes + [0]
        case .binary(let bytes): bytes
        }
    }
}
#endif
