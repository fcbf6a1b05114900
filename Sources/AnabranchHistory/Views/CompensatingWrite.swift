package import AnabranchCore

/// A write of a client that was left out, and undone on the client.
package struct CompensatingWrite: Sendable, Equatable {
    /// An object that the client has written to, and may not.
    package struct Object: Sendable, Equatable {
        package var className: [UInt8]
        package var key: PrimaryKey
        /// The reason for the refusal, for the application's developer.
        package var reason: String

        package init(className: [UInt8], key: PrimaryKey, reason: String) {
            self.className = className
            self.key = key
            self.reason = reason
        }
    }

    /// The version of the entry that undoes it.
    package var version: ServerVersion
    /// The client's changeset that contained it.
    package var clientVersion: ClientVersion
    /// The objects, or the first ones of very many.
    package var objects: [Object]

    package init(version: ServerVersion, clientVersion: ClientVersion, objects: [Object]) {
        self.version = version
        self.clientVersion = clientVersion
        self.objects = objects
    }
}

/// The objects of some changesets that were refused.
package struct Refusals: Sendable {
    package private(set) var count = 0
    /// The first ones of very many.
    package private(set) var objects: [CompensatingWrite.Object] = []

    mutating func record(_ count: Int, _ told: [CompensatingWrite.Object]) {
        self.count += count
        objects += told.prefix(CompensatingWrite.toldSize.objects - objects.count)
    }

    static func += (left: inout Refusals, right: Refusals) { left.record(right.count, right.objects) }
}

extension CompensatingWrite {
    /// The most objects, and about the most bytes of them, that are reported to a client for one changeset: all of them
    /// are undone, but thousands of refusals say no more than the first ones.
    static let toldSize = (objects: 256, bytes: 32 << 10)

    /// The part that is reported to the client.
    var told: CompensatingWrite {
        var bytes = 0
        let told = objects.prefix(Self.toldSize.objects).prefix { object in
            defer { bytes += object.byteCount }
            return bytes == 0 || bytes + object.byteCount <= Self.toldSize.bytes
        }
        return CompensatingWrite(version: version, clientVersion: clientVersion, objects: Array(told))
    }

    /// The approximate size on the wire and in a store, in bytes.
    package var byteCount: Int { objects.reduce(64) { $0 + $1.byteCount } }
}

extension CompensatingWrite.Object {
    fileprivate var byteCount: Int {
        let keyBytes = if case .string(let text) = key { text.count } else { 32 }
        return 64 + className.count + keyBytes + reason.utf8.count
    }
}

extension CompensatingWrite.Object {
    init(refusing object: TouchedObject, isOutside: Bool = false) {
        let table = String(decoding: object.className, as: UTF8.self)
        self.init(
            className: object.className, key: object.key,
            reason: "write to \(object.key.words) in table \"\(table)\" not allowed"
                + (isOutside ? "; object is outside of the current query view" : ""))
    }
}

extension PrimaryKey {
    /// The key as applications know it.
    fileprivate var words: String {
        switch self {
        case .null: "null"
        case .int(let value): "\(value)"
        case .string(let value): "\"\(String(excerptOf: value))\""
        case .globalKey: "an object without primary key"
        case .objectID(let value): "ObjectID(\"\(value)\")"
        case .uuid(let value): "UUID(\(value))"
        }
    }
}
