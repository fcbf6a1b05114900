/// What a changeset touches, as hash values that may be stored: the keys of an index that finds the log entries which
/// an upload can meet (`Spec/History.md`, "The touch index").
///
/// A log entry none of whose `posted` values is among an upload's `sought` ones cannot change the upload, nor be
/// changed by it. Two things can have one hash value; then an entry is merged in vain.
public struct Touches: Equatable, Sendable {
    /// Under which a log entry is found; sorted, each once.
    public var posted: [UInt64]
    /// Under which an upload looks for log entries; sorted, each once.
    public var sought: [UInt64]
    /// An upload that erases a class can meet any log entry: the erasure spreads to the columns that link to the class.
    public var seeksEverything = false

    /// The hash under which an EraseTable of the class is posted.
    public static func erasure(ofClass name: [UInt8]) -> UInt64 { TouchHash(name[...]).value(.erasedClass) }

    /// The hash under which an EraseColumn of the column is posted.
    public static func erasure(of column: ColumnName) -> UInt64 {
        TouchHash(column.className[...]).joined(with: column.field[...]).value(.erasedColumn)
    }
}

extension ChangesetPool {
    /// What the live instructions of a changeset touch.
    public func touches(of changeset: Int) -> Touches {
        var collector = TouchCollector()
        var className: (name: NameID, hash: TouchHash)?
        var latest = ObjectNumber.none
        for index in instructionIndices(of: changeset) {
            let instruction = instructions[index]
            let hash: TouchHash
            if let known = className, known.name == instruction.className {
                hash = known.hash
            } else {
                hash = TouchHash(bytes(of: instruction.className))
                className = (instruction.className, hash)
                collector.sought.append(hash.value(.erasedClass))
            }
            collector.add(instruction, hash, of: self)
            guard instruction.object != .none, instruction.object != latest else { continue }
            latest = instruction.object
            let object = TouchHash(objects.keys[Int(latest.rawValue)], hash, of: self).value(.object)
            collector.posted.append(object)
            collector.sought.append(object)
        }
        return Touches(
            posted: collector.posted.sortedUnique(), sought: collector.sought.sortedUnique(),
            seeksEverything: collector.seeksEverything)
    }
}

private struct TouchCollector {
    var posted: [UInt64] = []
    var sought: [UInt64] = []
    var seeksEverything = false

    /// Adds all but the object and the erasure of the class: the pairs of `Spec/Transform.md`, section 7, that do not
    /// need an object.
    mutating func add(_ instruction: Instruction, _ className: TouchHash, of pool: ChangesetPool) {
        switch instruction.kind {
        case .eraseTable:
            posted.append(className.value(.erasedClass))
            seeksEverything = true
        case .addTable:
            posted.append(className.value(.declaredClass))
            sought.append(className.value(.declaredClass))
        case .addColumn:
            let column = className.joined(with: pool.bytes(of: instruction.field))
            posted.append(column.value(.declaredColumn))
            posted.append(column.value(.columnUse))
            sought.append(column.value(.declaredColumn))
            sought.append(column.value(.erasedColumn))
            if instruction.type == .link {
                sought.append(TouchHash(pool.bytes(of: instruction.target)).value(.erasedClass))
            }
        case .eraseColumn:
            let column = className.joined(with: pool.bytes(of: instruction.field))
            posted.append(column.value(.erasedColumn))
            sought.append(column.value(.erasedColumn))
            sought.append(column.value(.columnUse))
        case .update:
            let column = className.joined(with: pool.bytes(of: instruction.field))
            posted.append(column.value(.columnUse))
            sought.append(column.value(.erasedColumn))
        default: break
        }
    }
}

/// A fixed function: what it yields is stored, so it must never change.
private struct TouchHash {
    enum Kind: UInt64 {
        case object = 1, declaredClass, erasedClass, declaredColumn, erasedColumn, columnUse
    }

    private var state: UInt64

    init(_ name: ArraySlice<UInt8>) {
        state = 0x2545_F491_4F6C_DD1D
        mix(name)
    }

    /// A class and a primary key.
    init(_ key: ObjectKey, _ className: TouchHash, of pool: borrowing ChangesetPool) {
        self = className
        mix(UInt64(UInt8(bitPattern: key.type.rawValue)))
        if key.type == .string {
            mix(pool.bytes(of: NameID(UInt32(truncatingIfNeeded: key.word0))))
        } else {
            mix(key.word0)
            mix(key.word1)
        }
    }

    func joined(with name: ArraySlice<UInt8>) -> TouchHash {
        var result = self
        result.mix(name)
        return result
    }

    func value(_ kind: Kind) -> UInt64 {
        var result = self
        result.mix(kind.rawValue)
        return result.state
    }

    private mutating func mix(_ word: UInt64) {
        let product = (state ^ word).multipliedFullWidth(by: 0x9E37_79B9_7F4A_7C15)
        state = product.high ^ product.low ^ word
    }

    private mutating func mix(_ bytes: ArraySlice<UInt8>) {
        var word: UInt64 = 0
        var count = 0
        for byte in bytes {
            word |= UInt64(byte) << UInt64(8 * (count & 7))
            count += 1
            if count & 7 == 0 {
                mix(word)
                word = 0
            }
        }
        mix(word)
        mix(UInt64(count))
    }
}
