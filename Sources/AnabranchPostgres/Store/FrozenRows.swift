#if canImport(CLibPQ)
import AnabranchCore
import AnabranchHistory
import AnabranchPostgresWire
import Foundation

/// The rows of a state as they were at one moment, in a temporary file without a name: a snapshot in PostgreSQL would
/// make it keep all versions of all rows of the database until the end.
final class FrozenRows: ObjectRows, @unchecked Sendable {
    // Immutable once it is made.
    private let file: FileHandle
    private let content: UnsafeRawBufferPointer
    /// The places of the rows, which are in the order of their addresses.
    private let offsets: [Int]

    /// The numbers of a row's class and part, and the sizes of its key and content, come before these.
    private static let headBytes = 24

    /// Copies the rows of one file.
    /// - Throws: `storeFailed`.
    init(of number: Int64, over connection: PostgresConnection) throws(HistoryError) {
        do {
            let path = FileManager.default.temporaryDirectory.appending(path: "anabranch-\(UUID().uuidString)").path()
            let descriptor = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
            guard descriptor >= 0 else {
                throw HistoryError(.storeFailed, "no temporary file can be made: error \(errno)")
            }
            unlink(path)
            let file = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
            var offsets: [Int] = [], written = 0, buffer: [UInt8] = []
            var reader = CopiedRows()
            // Each row has to come in time, not all of them.
            try connection.execute("SET LOCAL statement_timeout = 0")
            try connection.copyOut(
                """
                COPY (SELECT class, part, key, content FROM state_row WHERE file = \(number) ORDER BY class, key, part)
                TO STDOUT (FORMAT binary)
                """
            ) { bytes in
                for fields in try reader.rows(in: bytes) {
                    offsets.append(written + buffer.count)
                    let sizes = [UInt32(fields[2].count), UInt32(fields[3].count)]
                    buffer +=
                        fields[0] + fields[1]
                        + sizes.flatMap { size in
                            (0..<4).map { UInt8(truncatingIfNeeded: size >> (24 - 8 * $0)) }
                        }
                    buffer += fields[2] + fields[3]
                }
                if buffer.count > 1 << 20 {
                    try file.write(contentsOf: buffer)
                    written += buffer.count
                    buffer.removeAll(keepingCapacity: true)
                }
            }
            try file.write(contentsOf: buffer)
            written += buffer.count
            self.file = file
            self.offsets = offsets
            let memory = written > 0 ? mmap(nil, written, PROT_READ, MAP_PRIVATE, descriptor, 0) : nil
            guard memory != MAP_FAILED else {
                throw HistoryError(.storeFailed, "a temporary file cannot be read: error \(errno)")
            }
            content = UnsafeRawBufferPointer(start: memory, count: memory == nil ? 0 : written)
        } catch let error as PostgresError {
            throw HistoryError(error)
        } catch let error as HistoryError {
            throw error
        } catch {
            throw HistoryError(.storeFailed, "\(error)")
        }
    }

    deinit {
        if let start = content.baseAddress { munmap(UnsafeMutableRawPointer(mutating: start), content.count) }
    }

    private struct Row {
        let classID: UInt64
        let part: UInt64
        let key: UnsafeRawBufferPointer
        let content: UnsafeRawBufferPointer
    }

    private func stored(_ index: Int) -> Row {
        let start = offsets[index]
        func number<Number: FixedWidthInteger>(_ offset: Int, _ type: Number.Type) -> Number {
            Number(bigEndian: content.loadUnaligned(fromByteOffset: start + offset, as: type))
        }
        let keyStart = start + Self.headBytes, keyEnd = keyStart + Int(number(16, UInt32.self))
        return Row(
            classID: number(0, UInt64.self), part: number(8, UInt64.self),
            key: UnsafeRawBufferPointer(rebasing: content[keyStart..<keyEnd]),
            content: UnsafeRawBufferPointer(rebasing: content[keyEnd..<keyEnd + Int(number(20, UInt32.self))]))
    }

    /// The index of the first row whose address is at or above this one.
    private func firstPlace(_ classID: ClassID, _ key: [UInt8], _ part: UInt64) -> Int {
        var low = 0, high = offsets.count
        while low < high {
            let middle = low + (high - low) / 2, row = stored(middle)
            let isBelow =
                row.classID != UInt64(classID.rawValue)
                ? row.classID < UInt64(classID.rawValue)
                : row.key.elementsEqual(key) ? row.part < part : row.key.lexicographicallyPrecedes(key)
            if isBelow { low = middle + 1 } else { high = middle }
        }
        return low
    }

    func row(at address: RowAddress) -> [UInt8]? {
        let place = firstPlace(address.classID, address.key, address.part)
        guard place < offsets.count, case let row = stored(place), row.classID == UInt64(address.classID.rawValue),
            row.part == address.part, row.key.elementsEqual(address.key)
        else { return nil }
        return Array(row.content)
    }

    func objects(of classID: ClassID, after key: [UInt8]?, limit: Int) -> [(key: [UInt8], row: [UInt8])] {
        var place = key.map { firstPlace(classID, $0, .max) } ?? firstPlace(classID, [], 0)
        var found: [(key: [UInt8], row: [UInt8])] = []
        while place < offsets.count, found.count < limit, case let row = stored(place),
            row.classID == UInt64(classID.rawValue)
        {
            if row.part == 0 { found.append((Array(row.key), Array(row.content))) }
            place += 1
        }
        return found
    }
}

/// Reads the rows of `COPY … (FORMAT binary)`.
private struct CopiedRows {
    private var bytes: [UInt8] = []
    private var isBegun = false
    /// The signature, the flags, and the length of an extension, which is absent.
    private static let headBytes = 19

    /// - Parameter more: the bytes that have come.
    /// - Returns: the fields of the rows that are whole.
    mutating func rows(in more: UnsafeRawBufferPointer) throws(HistoryError) -> [[ArraySlice<UInt8>]] {
        bytes += more
        var offset = 0
        if !isBegun {
            guard bytes.count >= Self.headBytes else { return [] }
            (isBegun, offset) = (true, Self.headBytes)
        }
        var rows: [[ArraySlice<UInt8>]] = []
        scan: while offset + 2 <= bytes.count {
            let count = Int16(truncatingIfNeeded: Int(bytes[offset]) << 8 | Int(bytes[offset + 1]))
            guard count >= 0 else { break }
            var next = offset + 2, fields: [ArraySlice<UInt8>] = []
            for _ in 0..<count {
                guard next + 4 <= bytes.count else { break scan }
                let length = Int(bytes[next..<next + 4].reduce(0) { $0 << 8 | UInt32($1) })
                next += 4
                guard next + length <= bytes.count else { break scan }
                fields.append(bytes[next..<next + length])
                next += length
            }
            guard fields.count == 4 else { throw HistoryError(.storeDamaged, "a row of a state has other columns") }
            rows.append(fields)
            offset = next
        }
        bytes.removeFirst(offset)
        return rows
    }
}
#endif
