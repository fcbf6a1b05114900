// A primary key outside of a changeset: its type and its value, as a changeset has them (`Spec/Changeset.md`, section
// 7), but with the text itself instead of the number of a name. Error messages name objects in this form
// (`Spec/FlexibleSync.md`, section 2.7).

extension PrimaryKey {
    /// The type and the value.
    package var payload: [UInt8] {
        var writer = ByteWriter()
        writer.write(type)
        switch self {
        case .null: break
        case .int(let value): writer.write(value)
        case .string(let text): writer.write(counted: text)
        case .globalKey(let value):
            writer.write(value.high)
            writer.write(value.low)
        case .objectID(let value): writer.write(raw: value.bytes)
        case .uuid(let value): writer.write(raw: value.bytes)
        }
        return writer.take()
    }

    /// - Returns: nil if it is not exactly the key of a class with a primary key field.
    package init?(payload: [UInt8]) {
        let key = payload.withUnsafeBufferPointer { bytes -> PrimaryKey? in
            var reader = ByteReader(bytes)
            let key = try? reader.keyPayload(of: bytes)
            return reader.isAtEnd ? key : nil
        }
        guard let key else { return nil }
        self = key
    }

    /// - Returns: nil for a value that is not a key.
    package init?(_ value: Payload) {
        switch value {
        case .null: self = .null
        case .int(let value): self = .int(value)
        case .string(let text): self = .string(text)
        case .objectID(let value): self = .objectID(value)
        case .uuid(let value): self = .uuid(value)
        default: return nil
        }
    }
}

extension ByteReader {
    fileprivate mutating func keyPayload(of bytes: UnsafeBufferPointer<UInt8>) throws(ChangesetError) -> PrimaryKey? {
        switch PayloadType(rawValue: Int8(clamping: try i64())) {
        case .null: .null
        case .int: .int(try i64())
        case .string: .string(Array(bytes[try counted(atMost: .max)]))
        case .objectID: .objectID(ObjectID(low: try littleEndian(8), high: try littleEndian(4)))
        case .uuid: .uuid(UUIDBytes(low: try littleEndian(8), high: try littleEndian(8)))
        default: nil
        }
    }
}
