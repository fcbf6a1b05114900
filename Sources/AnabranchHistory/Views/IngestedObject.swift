package import AnabranchCore

/// An object of an asymmetric class that a client has uploaded. It is not part of the state, is sent to nobody, and
/// waits for a consumer (`Spec/FlexibleSync.md`, section 3.6).
package struct IngestedObject: Sendable, Equatable {
    /// The largest number of them in one upload.
    package static let countMax: UInt64 = 1 << 20

    /// The numbers of a file grow, and have gaps.
    package let number: UInt64
    package let className: [UInt8]
    package let key: PrimaryKey
    /// The time of its arrival, in seconds since 1970.
    package let time: UInt64
    /// The user who uploaded it; nil if unknown.
    package let user: String?
    /// The object as `anabranch inspect` shows objects.
    package let json: [UInt8]

    package init(number: UInt64, className: [UInt8], key: PrimaryKey, time: UInt64, user: String?, json: [UInt8]) {
        self.number = number
        self.className = className
        self.key = key
        self.time = time
        self.user = user
        self.json = json
    }

    /// - Parameters:
    ///   - position: the position among those of its upload.
    ///   - version: the version of the log entry of its changeset.
    init(
        _ position: UInt64, of version: ServerVersion, _ className: [UInt8], _ key: PrimaryKey, time: UInt64,
        user: String?, json: [UInt8]
    ) throws(HistoryError) {
        try require(position < Self.countMax, .tooLarge, "an upload has more than \(Self.countMax) such objects")
        self.init(
            number: version.rawValue * Self.countMax + position, className: className, key: key, time: time,
            user: user, json: json)
    }

    /// The space that it occupies, in bytes.
    package var byteCount: UInt64 { UInt64(json.count) + 64 }
}

/// The objects of a file in memory, in the order of their numbers.
struct IngestedObjects: Sendable {
    private struct Name: Hashable {
        var className: [UInt8]
        var key: PrimaryKey
    }

    private(set) var list: [IngestedObject] = []
    private var names: Set<Name> = []

    /// Adds the objects whose class and key no other one has.
    mutating func append(_ objects: [IngestedObject]) {
        list += objects.filter { names.insert(Name(className: $0.className, key: $0.key)).inserted }
    }

    mutating func free(through number: UInt64) {
        for object in list.prefix(while: { $0.number <= number }) {
            names.remove(Name(className: object.className, key: object.key))
        }
        list.removeFirst(list.prefix { $0.number <= number }.count)
    }

    func page(after number: UInt64, countMax: Int, byteBudget: Int) -> [IngestedObject] {
        list.drop { $0.number <= number }.page(countMax: countMax, byteBudget: byteBudget)
    }
}

extension Sequence<IngestedObject> {
    /// The space that they occupy, in bytes, by user.
    var byteCounts: [ExactString?: UInt64] {
        reduce(into: [:]) { $0[$1.user.map { ExactString($0) }, default: 0] += $1.byteCount }
    }

    /// The first of them, until there are `countMax` or they have `byteBudget` bytes.
    package func page(countMax: Int, byteBudget: Int) -> [IngestedObject] {
        var page: [IngestedObject] = [], bytes = 0
        for object in self {
            guard page.count < countMax, bytes < byteBudget else { break }
            page.append(object)
            bytes += object.json.count
        }
        return page
    }
}
