import AnabranchCore
import AnabranchHistory
import AnabranchTesting

/// The kinds of changesets in a log.
enum SegmentWorkload: String, CaseIterable {
    case settings, texts, objects

    fileprivate func changeset(using random: inout SeededRandom, number: Int) -> [UInt8] {
        func path(_ key: Int, _ field: String) -> FieldPath {
            FieldPath(object: ObjectName(className: "Measurement", key: .int(Int64(key))), field: field)
        }
        switch self {
        case .settings:
            let path = path(random.below(10_000), random.pick(["temperature", "pressure"]))
            return ChangesetWriter([.update(path, .int(Int64(random.below(1_000_000))))]).bytes
        case .texts:
            let words = (0..<16).map { _ in random.pick(["river", "channel", "joins", "again", "below", "stream"]) }
            let path = path(random.below(10_000), "note")
            return ChangesetWriter([.update(path, .string(Array(words.joined(separator: " ").utf8)))]).bytes
        case .objects:
            let fields = ["temperature", "pressure", "humidity", "station"]
            let updates = fields.map {
                NamedInstruction.update(path(number, $0), .int(Int64(random.below(1000))))
            }
            let object = ObjectName(className: "Measurement", key: .int(Int64(number)))
            return ChangesetWriter([.createObject(object)] + updates).bytes
        }
    }
}

/// A log of 20 clients with three releases, whose transactions come a second apart.
struct SegmentLog {
    private let workload: SegmentWorkload
    var random = SeededRandom(seed: 1)
    private var version = 0
    private var cumulativeSize: UInt64 = 0
    private var time: UInt64 = 362_000_000_000
    private var clientVersions = [UInt64](repeating: 2, count: 20)
    private let salt: Salt
    private let rareInterval: Int

    /// - Parameter rareInterval: the interval, in entries, of those about an object that is written only once; such
    ///   objects have keys above `rareKey`.
    init(_ workload: SegmentWorkload, rareInterval: Int = .max) {
        self.workload = workload
        self.rareInterval = rareInterval
        salt = Salt.random(using: &random)
    }

    static let rareKey = 1_000_000

    /// Sets a field of one of the objects that are written rarely.
    static func rareChangeset(_ number: Int) -> [UInt8] {
        let object = ObjectName(className: "Measurement", key: .int(Int64(rareKey + number)))
        return ChangesetWriter([.update(FieldPath(object: object, field: "pressure"), .int(Int64(number)))]).bytes
    }

    /// The next entries.
    mutating func next(_ count: Int) -> [LogEntry] { (0..<count).map { _ in nextEntry() } }

    private mutating func nextEntry() -> LogEntry {
        version += 1
        time += UInt64(random.below(2000))
        let client = random.below(clientVersions.count)
        clientVersions[client] += UInt64(1 + random.below(3))
        let isRare = version.isMultiple(of: rareInterval)
        let changeset =
            isRare
            ? Self.rareChangeset(version / rareInterval) : workload.changeset(using: &random, number: version)
        cumulativeSize += UInt64(changeset.count)
        return LogEntry(
            version: ServerVersion(version), salt: salt, origin: ClientFileID(client + 2),
            clientVersion: ClientVersion(rawValue: clientVersions[client]), timestamp: ChangesetTime(rawValue: time),
            cumulativeSize: cumulativeSize, changeset: changeset,
            base: ServerVersion(version - min(version, 1 + random.below(4))),
            uploader: Uploader(release: [14_005_002, 13_026_000, 12_013_000][client % 3], protocolVersion: 10))
    }
}

extension ConflictKeys {
    /// The keys of a changeset by itself.
    init(of changeset: [UInt8]) throws {
        var arena = ChangesetArena()
        let index = try arena.decode(changeset, version: 1, tag: OriginTag(timestamp: 1, ident: 2))
        self = arena.conflictKeys(of: index)
    }
}
