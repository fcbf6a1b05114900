import AnabranchCore
import AnabranchReplica
import Foundation

/// The checksums of the rows that are not the state's (`Spec/Replica.md`, section 2.6). Each depends on the place of
/// the row, so that a row in the place of another one is detected as well.
enum ReplicaChecksum: String {
    /// The row of the numbers.
    case replica
    /// The numbers of an entry of the log, and its contents.
    case entry, changeset, reciprocal, changed
    /// A part of a bootstrap.
    case part
    /// The origin with which the replica is synchronized.
    case origin
    /// The time when the replica and its server last had the same.
    case lastSync

    private func address(_ number: UInt64) -> RowAddress {
        RowAddress(classID: ClassID(0), key: Array(rawValue.utf8), part: number)
    }

    /// The checksum of the other columns of a row.
    ///
    /// - Parameters:
    ///   - number: the number of the row.
    ///   - numbers: the numbers in the row; nil where it has null.
    func sum(_ number: UInt64, of numbers: [Int64?], _ bytes: [UInt8] = []) -> [UInt8] {
        var content: [UInt8] = []
        content.reserveCapacity(numbers.count * 9 + bytes.count + 8)
        for number in numbers {
            content.append(number == nil ? 0 : 1)
            withUnsafeBytes(of: (number ?? 0).littleEndian) { content += $0 }
        }
        let count = content.count + bytes.count
        content += bytes
        RowChecksum.append(to: &content, at: address(number))
        return Array(content[count...])
    }

    /// Bytes followed by their checksum, as `content(of:_:)` reads them.
    func appended(to bytes: [UInt8], _ number: UInt64) -> Data {
        Data(RowChecksum.row(of: bytes, at: address(number)))
    }

    /// The bytes before their checksum.
    /// - Throws: `ReplicaError` with the code `damaged` if the checksum does not match.
    func content(of bytes: [UInt8], _ number: UInt64) throws(ReplicaError) -> [UInt8] {
        guard let content = RowChecksum.content(of: bytes, at: address(number)) else { throw damage(number) }
        return content
    }

    func check(_ holds: Bool, _ number: UInt64) throws(ReplicaError) {
        if !holds { throw damage(number) }
    }

    private func damage(_ number: UInt64) -> ReplicaError {
        let place =
            switch self {
            case .replica: "the row of its numbers"
            case .entry: "version \(number) of its log"
            case .changeset: "the changeset of version \(number) of its log"
            case .changed: "what version \(number) of its log has changed in lists"
            case .origin: "what it is synchronized with"
            case .lastSync: "the time of its last synchronization"
            case .reciprocal: "the merged changeset of version \(number) of its log"
            case .part: "part \(number) of a bootstrap"
            }
        return ReplicaError(.damaged, "\(place) is not what was written")
    }
}
