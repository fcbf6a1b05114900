import AnabranchCore

/// A point in the log of a file: the change of one object by one entry (`Spec/Simperium.md`, section 6).
struct ChangePlace: Hashable, Comparable, Sendable {
    static let start = ChangePlace(version: 0, ordinal: 0)

    var version: ServerVersion
    /// The number of the object among those that the entry changes.
    var ordinal: UInt32

    /// The point after everything that an entry changes.
    static func end(of version: ServerVersion) -> ChangePlace { ChangePlace(version: version, ordinal: .max) }

    static func < (left: ChangePlace, right: ChangePlace) -> Bool {
        (left.version, left.ordinal) < (right.version, right.ordinal)
    }

    /// The bytes of a place are in the order of the places.
    var bytes: [UInt8] {
        var writer = RecordWriter()
        writer.append(self)
        return writer.bytes
    }
}

/// A change version (`cv`): a point in the history of a bucket, as clients name it.
struct ChangeVersion: Equatable, Sendable {
    var place: ChangePlace
    /// The number of the bucket's history: another one if the door has missed entries, or the bucket is another one.
    var salt: UInt64

    init(_ place: ChangePlace, salt: UInt64) {
        self.place = place
        self.salt = salt
    }

    /// Reads 40 hexadecimal digits.
    init?(_ text: some StringProtocol) {
        guard text.utf8.count == 40, let bytes = Hex.decode(String(text)) else { return nil }
        var reader = RecordReader(bytes)
        guard let place = try? reader.place(), let salt: UInt64 = try? reader.number() else { return nil }
        self.init(place, salt: salt)
    }

    var text: String {
        var writer = RecordWriter()
        writer.append(place)
        writer.append(salt)
        return Hex.encode(writer.bytes)
    }
}

extension DoorRow {
    /// The number of a bucket's history, so that what one bucket has named is not known to the others.
    private func salt(of bucket: String) -> UInt64 {
        bucket.utf8.reduce(salt) { ($0 ^ UInt64($1)) &* 0x100_0000_01B3 }
    }

    /// A point in the history of a bucket, as clients name it.
    func cv(_ place: ChangePlace, of bucket: String) -> String { ChangeVersion(place, salt: salt(of: bucket)).text }

    /// The point that a client names; nil if it is none of the bucket's history.
    func place(of cv: some StringProtocol, in bucket: String) -> ChangePlace? {
        guard let cv = ChangeVersion(cv), cv.salt == salt(of: bucket), cv.place <= end else { return nil }
        return cv.place
    }
}
