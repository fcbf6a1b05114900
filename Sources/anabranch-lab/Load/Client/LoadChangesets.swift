import AnabranchCore
import AnabranchTesting

/// The writes of clients: each has an object of its own, whose data it replaces. So the state does not grow, and every
/// changeset fits any state in which the client's first one is.
enum LoadChangesets {
    static let className = "Note"

    /// Makes the class.
    static var schema: [UInt8] {
        ChangesetWriter([.addTable(className), .addColumn(className, "data", .binary)]).bytes
    }

    /// Makes the class, and the object of a client.
    static func first(of client: UInt64) -> [UInt8] {
        ChangesetWriter([
            .addTable(className), .addColumn(className, "data", .binary), .createObject(object(client)),
        ]).bytes
    }

    /// Replaces the data of a client's object with bytes that nothing compresses.
    ///
    /// - Parameter number: determines the bytes, together with the client.
    static func update(of client: UInt64, number: UInt64, bytes: Int) -> [UInt8] {
        let data = Self.bytes(of: client, number: number, count: bytes)
        return ChangesetWriter([.update(FieldPath(object: object(client), field: "data"), .binary(data))]).bytes
    }

    /// Bytes that nothing compresses.
    static func bytes(of client: UInt64, number: UInt64, count: Int) -> [UInt8] {
        var random = SeededRandom(scrambling: client << 32 ^ number)
        return [UInt8](unsafeUninitializedCapacity: count) { buffer, initializedCount in
            for index in 0..<count { buffer[index] = 0 }
            let words = UnsafeMutableRawBufferPointer(buffer)
            for offset in stride(from: 0, to: count - 7, by: 8) {
                words.storeBytes(of: random.next(), toByteOffset: offset, as: UInt64.self)
            }
            initializedCount = count
        }
    }

    /// A history of incompressible bytes, in pieces that travel well.
    static func history(of client: UInt64, bytes: Int) -> [[UInt8]] {
        let pieceBytes = 256 << 10
        return stride(from: 0, to: bytes, by: pieceBytes).enumerated().map { number, start in
            update(of: client, number: UInt64(number), bytes: min(pieceBytes, bytes - start))
        }
    }

    private static func object(_ client: UInt64) -> ObjectName {
        ObjectName(className: className, key: .int(Int64(client)))
    }
}
