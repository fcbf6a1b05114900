import AnabranchRealmFile
import AnabranchTesting
import Foundation

/// Intact Realm files, and ways to damage them.
struct RealmFileDamage {
    struct Source {
        var name: String
        var bytes: [UInt8]
        var isEncrypted: Bool
        /// The positions where arrays begin, as far as the first bytes of their headers tell.
        var refs: [Int]
    }

    /// A damaged file, and the damage done to it.
    struct Case {
        var source: String
        var damage: String
        var bytes: [UInt8]
        var key: [UInt8]?
        /// True to leave out damaged parts.
        var salvages: Bool
    }

    private static let fileBytesMax = 3 << 20
    private static let arrayMark: [UInt8] = [0x41, 0x41, 0x41, 0x41]

    let sources: [Source]

    /// - Parameter folder: a folder with files NAME.realm.gz.
    init(folder: String) throws {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
        var sources: [Source] = []
        for name in names.sorted() where name.hasSuffix(".realm.gz") {
            let bytes = Array(try GzipFile.contents(of: "\(folder)/\(name)"))
            // Larger files would take most of the time, and have nothing that these lack.
            guard bytes.count <= Self.fileBytesMax else { continue }
            let refs = stride(from: 24, to: bytes.count - 8, by: 8).filter {
                bytes[$0..<$0 + 4].elementsEqual(Self.arrayMark)
            }
            sources.append(
                Source(name: name, bytes: bytes, isEncrypted: name.contains("encrypted"), refs: refs))
        }
        guard !sources.isEmpty else { throw InputError(description: "\(folder): there are no files NAME.realm.gz") }
        self.sources = sources
    }

    func makeCase(seed: UInt64) -> Case {
        var random = SeededRandom(scrambling: seed)
        let source = random.pick(sources)
        var damaged = Case(
            source: source.name, damage: "", bytes: source.bytes, key: source.isEncrypted ? RealmFileCheck.key : nil,
            salvages: random.isOne(in: 2))
        for _ in 0...random.below(3) {
            switch random.below(source.refs.isEmpty ? 3 : 6) {
            case 0: Self.flipBits(in: &damaged, &random)
            case 1: Self.cut(&damaged, &random)
            case 2: Self.changeHeader(of: &damaged, &random)
            case 3: Self.changeArrayHeader(of: source, in: &damaged, &random)
            case 4: Self.changeElement(of: source, in: &damaged, &random)
            default: Self.copyArray(of: source, in: &damaged, &random)
            }
        }
        return damaged
    }

    private static func flipBits(in damaged: inout Case, _ random: inout SeededRandom) {
        guard !damaged.bytes.isEmpty else { return }
        let count = 1 + random.below(16)
        for _ in 0..<count { damaged.bytes[random.below(damaged.bytes.count)] ^= 1 << random.below(8) }
        damaged.damage += "\(count) bits; "
    }

    private static func cut(_ damaged: inout Case, _ random: inout SeededRandom) {
        guard random.isOne(in: 4), damaged.bytes.count > 1 else { return }
        damaged.bytes.removeLast(1 + random.below(damaged.bytes.count - 1))
        damaged.damage += "cut to \(damaged.bytes.count); "
    }

    private static func changeHeader(of damaged: inout Case, _ random: inout SeededRandom) {
        guard random.isOne(in: 2), damaged.bytes.count > 24 else { return }
        let place = random.isOne(in: 4) ? damaged.bytes.count - 1 - random.below(16) : random.below(24)
        damaged.bytes[place] = UInt8(random.below(256))
        damaged.damage += "byte \(place); "
    }

    /// Changes the flags, the width or the number of elements.
    private static func changeArrayHeader(
        of source: Source, in damaged: inout Case, _ random: inout SeededRandom
    ) {
        let place = random.pick(source.refs) + 4 + random.below(4)
        guard place < damaged.bytes.count else { return }
        damaged.bytes[place] =
            random.isOne(in: 2) ? UInt8(random.below(256)) : damaged.bytes[place] ^ 1 << random.below(8)
        damaged.damage += "the array header at \(place & ~7); "
    }

    /// Makes an element a ref to an existing array, or a number at an end of its range.
    private static func changeElement(of source: Source, in damaged: inout Case, _ random: inout SeededRandom) {
        let ref = random.pick(source.refs), width = random.pick([1, 2, 4, 8])
        let place = ref + 8 + width * random.below(8)
        guard place + width <= damaged.bytes.count else { return }
        let value = random.pick([
            UInt64(random.pick(source.refs)), 0, .max, UInt64(ref), 1 << UInt64(8 * width - 1),
            UInt64(random.below(2_048)),
        ])
        for index in 0..<width { damaged.bytes[place + index] = UInt8(truncatingIfNeeded: value >> UInt64(8 * index)) }
        damaged.damage += "the element at \(place) of \(ref); "
    }

    /// Copies an array over another one.
    private static func copyArray(of source: Source, in damaged: inout Case, _ random: inout SeededRandom) {
        let from = random.pick(source.refs), to = random.pick(source.refs), count = 8 * (1 + random.below(16))
        guard max(from, to) + count <= damaged.bytes.count else { return }
        damaged.bytes.replaceSubrange(to..<to + count, with: Array(damaged.bytes[from..<from + count]))
        damaged.damage += "\(count) bytes of \(from) at \(to); "
    }
}
