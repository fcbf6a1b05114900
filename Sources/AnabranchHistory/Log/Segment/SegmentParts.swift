import AnabranchCore

/// Some of the 31 consecutive parts of about the same size that the entries of a log segment are divided into
/// (`Spec/Durability.md`, section 8.3).
struct SegmentParts: Equatable, Sendable {
    /// The number of parts: with one number more they have 5 bits.
    private static let count: UInt8 = 31
    /// Stands for more than one part.
    static let several = count
    static let all = SegmentParts(bits: 1 << UInt32(count) - 1)

    private var bits: UInt32

    private init(bits: UInt32) { self.bits = bits }

    /// No parts.
    init() { bits = 0 }

    /// - Parameter number: of a part, from 0, or `several`.
    init(_ number: UInt8) { self = number < Self.count ? SegmentParts(bits: 1 << UInt32(number)) : .all }

    /// The number of the part that an entry is in.
    static func number(of version: ServerVersion, in range: VersionRange) -> UInt8 {
        let place = version.rawValue - range.base.rawValue - 1
        return UInt8(place * UInt64(count) / (range.last.rawValue - range.base.rawValue))
    }

    mutating func formUnion(_ other: SegmentParts) { bits |= other.bits }

    func contains(_ number: UInt8) -> Bool { bits >> UInt32(number) & 1 == 1 }

    /// The places of the entries of each of the parts.
    /// - Parameter entryCount: how many entries the segment has.
    func places(of entryCount: Int) -> [Range<Int>] {
        let count = Int(Self.count)
        func start(_ number: Int) -> Int { (number * entryCount + count - 1) / count }
        return (0..<count).filter { contains(UInt8($0)) }.map { start($0)..<start($0 + 1) }
    }
}
