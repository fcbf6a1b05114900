package import AnabranchCore

/// Values in the forms in which stores keep them.
extension PrimaryKey {
    package var stored: (type: PayloadType, bytes: [UInt8]) {
        switch self {
        case .null: (.null, [])
        case .int(let value): (.int, Array("\(value)".utf8))
        case .string(let value): (.string, value)
        case .globalKey: (.globalKey, [])
        case .objectID(let value): (.objectID, value.bytes)
        case .uuid(let value): (.uuid, value.bytes)
        }
    }

    package init?(_ type: PayloadType, stored bytes: [UInt8]) {
        switch type {
        case .null: self = .null
        case .int:
            guard let value = Int64(String(decoding: bytes, as: UTF8.self)) else { return nil }
            self = .int(value)
        case .string: self = .string(bytes)
        case .objectID:
            guard let value = ObjectID(bytes) else { return nil }
            self = .objectID(value)
        case .uuid:
            guard let value = UUIDBytes(bytes) else { return nil }
            self = .uuid(value)
        default: return nil
        }
    }
}

extension Predicates {
    package init(stored text: String) throws(HistoryError) {
        guard let value = try? JSONValue(parsing: text.utf8), let predicates = Predicates(value) else {
            throw HistoryError(.storeDamaged, "the queries of a view cannot be read")
        }
        self = predicates
    }
}

extension CompensatingWrite {
    /// The most objects that are read back: more than any client ever gets.
    private static let objectsMax = 1 << 20

    /// The write as bytes.
    package var encoded: [UInt8] {
        var writer = SegmentWriter()
        writer.write(version.rawValue)
        writer.write(clientVersion.rawValue)
        writer.write(count: objects.count)
        for object in objects {
            let key = object.key.stored
            writer.write(counted: object.className)
            writer.write(UInt64(UInt8(bitPattern: key.type.rawValue)))
            writer.write(counted: key.bytes)
            writer.write(counted: object.reason.utf8)
        }
        return writer.take()
    }

    /// - Throws: `storeDamaged`.
    package init(encoded bytes: [UInt8]) throws(HistoryError) {
        var reader = SegmentReader(bytes, name: "a compensating write")
        let version = try reader.number(), clientVersion = try reader.number()
        var objects: [Object] = []
        for _ in 0..<(try reader.count(atMost: Self.objectsMax)) {
            let className = Array(try reader.countedBytes()), type = try reader.number()
            guard let type = PayloadType(rawValue: Int8(truncatingIfNeeded: type)),
                let key = PrimaryKey(type, stored: Array(try reader.countedBytes()))
            else { throw HistoryError(.storeDamaged, "a compensating write has no key") }
            let reason = String(decoding: try reader.countedBytes(), as: UTF8.self)
            objects.append(Object(className: className, key: key, reason: reason))
        }
        try reader.requireEnd()
        self.init(
            version: ServerVersion(rawValue: version), clientVersion: ClientVersion(rawValue: clientVersion),
            objects: objects)
    }
}
