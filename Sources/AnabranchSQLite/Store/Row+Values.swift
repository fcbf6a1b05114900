import AnabranchCore
import AnabranchHistory
import AnabranchRows
import GRDB

/// Columns as values; a column of another type is damage.
protocol RowValues {
    func number(_ index: Int) throws -> UInt64
    func bytes(_ index: Int) throws -> [UInt8]
}

extension RowValues {
    func number<Number: TypedNumber>(_ index: Int) throws -> Number { Number(rawValue: try number(index)) }
}

extension BorrowedColumns: RowValues {
    func number(_ index: Int) throws -> UInt64 {
        guard let number = integer(index) else { throw HistoryError.damagedColumn(name(index)) }
        return UInt64(bitPattern: number)
    }

    func bytes(_ index: Int) throws -> [UInt8] {
        guard let bytes = blob(index) else { throw HistoryError.damagedColumn(name(index)) }
        return bytes
    }
}

extension Row: RowValues {
    func number(_ index: Int) throws -> UInt64 {
        let value: DatabaseValue = self[index]
        guard case .int64(let number) = value.storage else { throw damaged(index) }
        return UInt64(bitPattern: number)
    }

    func optionalNumber(_ index: Int) throws -> UInt64? { hasNull(atIndex: index) ? nil : try number(index) }

    func bytes(_ index: Int) throws -> [UInt8] {
        do {
            let bytes = try withUnsafeData(atIndex: index) { $0.map(Array.init) }
            if let bytes { return bytes }
        } catch {
            // The column has a type other than data and NULL.
        }
        throw damaged(index)
    }

    func text(_ index: Int) throws -> String? {
        let value: DatabaseValue = self[index]
        switch value.storage {
        case .null: return nil
        case .string(let text): return text
        default: throw damaged(index)
        }
    }

    private func damaged(_ index: Int) -> HistoryError { .damagedColumn(Array(columnNames)[index]) }
}

extension HistoryError {
    fileprivate static func damagedColumn(_ name: String) -> HistoryError {
        HistoryError(.storeDamaged, "column \(name) has another type")
    }
}
