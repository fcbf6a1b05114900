import AnabranchCore
import Foundation
import GRDB
import Testing

@testable import AnabranchRows

/// Rows of a state that are in no pages.
@Suite struct StateTableTests {
    /// Inverts rows of an even length.
    private struct Inversion: RowPacking {
        func packed(_ row: [UInt8]) -> Data? { row.count.isMultiple(of: 2) ? Data(row.map { ~$0 }) : nil }

        func unpacked(_ stored: UnsafeRawBufferPointer) -> [UInt8]? {
            stored.count.isMultiple(of: 2) ? stored.map { ~$0 } : nil
        }
    }

    @Test(arguments: [false, true]) func rowsReadTogetherAreWhatTheyAreOneByOne(isPacked: Bool) throws {
        let queue = try DatabaseQueue()
        let tables = (1...2).map { StateTable(file: $0, packing: isPacked ? Inversion() : nil) }
        try queue.write { db in
            try db.execute(sql: StateTable.sql)
            for table in tables {
                var rows: [(address: RowAddress, bytes: [UInt8])] = []
                for key in 0..<200 where !key.isMultiple(of: 3) {
                    for (number, part) in [(1, 0), (1, 1), (2, 0)] as [(UInt32, UInt64)] {
                        let address = RowAddress(classID: ClassID(number), key: Array("\(key)".utf8), part: part)
                        rows.append((address, Array("\(table.file) \(number) \(key) \(part)".utf8)))
                    }
                }
                try table.write(RowWrites(copied: rows), in: db)
            }
        }
        let keys = (0..<200).map { Array("\($0)".utf8) }.sorted { $0.lexicographicallyPrecedes($1) }
        for count in [0, 1, 7, 8, 63, 64, 65, 129, 200] {
            let some = Array(keys.prefix(count))
            let (together, single) = try queue.read { db in
                let addresses = some.map { RowAddress(classID: ClassID(1), key: $0) }
                return (
                    try tables[0].rows(of: ClassID(1), some, in: db),
                    try addresses.map { try tables[0].row(at: $0, in: db) }
                )
            }
            #expect(together == single, "\(count) rows")
            #expect(together.count == count && together.count { $0 == nil } == some.count { Self.isMissing($0) })
        }
    }

    private static func isMissing(_ key: [UInt8]) -> Bool {
        Int(String(decoding: key, as: UTF8.self))?.isMultiple(of: 3) == true
    }
}
