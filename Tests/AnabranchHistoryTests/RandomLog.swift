import AnabranchCore
import AnabranchTesting

@testable import AnabranchHistory

/// Log entries that no client has made.
enum RandomLog {
    /// Entries whose numbers have all sizes: a store keeps what it is given.
    static func entries(_ count: Int, using random: inout SeededRandom) -> [LogEntry] {
        // At the end of all versions, or anywhere.
        let room = UInt64(Int64.max) - UInt64(count)
        var version = random.isOne(in: 4) ? room : random.next() % room >> (random.next() % 63)
        var size = number(&random) >> 1
        let origins = (0...random.below(5)).map { _ in number(&random) }
        return (0..<count).map { _ in
            version += 1
            let changeset = random.isOne(in: 5) ? [] : setting(Int64(random.below(20)), Int64(random.below(1000)))
            size += UInt64(changeset.count)
            return LogEntry(
                version: ServerVersion(rawValue: version), salt: Salt(rawValue: number(&random)),
                origin: ClientFileID(rawValue: random.pick(origins)),
                clientVersion: ClientVersion(rawValue: number(&random)),
                timestamp: ChangesetTime(rawValue: number(&random)), cumulativeSize: size, changeset: changeset,
                base: random.isOne(in: 3) ? nil : ServerVersion(rawValue: number(&random)),
                uploader: Uploader(release: number(&random), protocolVersion: number(&random)),
                section: random.isOne(in: 4) ? (0...random.below(9)).map { UInt8($0) } : [])
        }
    }

    /// Often 0, small, or the same as before; sometimes of 64 bits.
    private static func number(_ random: inout SeededRandom) -> UInt64 {
        switch random.below(4) {
        case 0: 0
        case 1: 14_005_002
        case 2: random.next() >> (random.next() % 64)
        default: random.isOne(in: 5) ? .max : UInt64(random.below(10))
        }
    }

    /// The entries 1 … `count`, each of which sets a field of an object.
    /// - Parameters:
    ///   - objects: how many there are.
    ///   - first: the key of the first object.
    static func settings(_ count: Int, objects: Int = .max, from first: Int = 0) -> [LogEntry] {
        var size: UInt64 = 0
        return (0..<count).map { number in
            let changeset = setting(Int64(first + number % objects), Int64(number))
            size += UInt64(changeset.count)
            return LogEntry(
                version: ServerVersion(number + 1), salt: 77, origin: ClientFileID(2 + number % 3),
                clientVersion: ClientVersion(2 + number), timestamp: ChangesetTime(1000 + number),
                cumulativeSize: size, changeset: changeset, base: ServerVersion(number),
                uploader: Uploader(release: 14_005_002, protocolVersion: 10))
        }
    }

    private static func setting(_ object: Int64, _ value: Int64) -> [UInt8] {
        ChangesetWriter.setting(object, to: value)
    }
}
