import AnabranchCore

/// The objects that a log entry touches as they were before it: a changeset that makes them so again, stored with the
/// entry. With it the state at an earlier version can be found out, as far as these objects are concerned. Where it
/// would be long, as that of a long text that a query looks at, or of very many objects, the objects may have been
/// anything: which ones they are, the entry itself says.
struct BeforeImage {
    /// The tags of the field in `LogEntry.section`.
    private static let (tag, tagOfNames): (UInt8, UInt8) = (1, 2)
    /// The size from which an image is not stored, in bytes, and what each object adds to it.
    private static let (bytesMax, objectBytesMax) = (64 << 10, 256)
    /// The same, however many objects there are: a log segment that is half full of images has room for one.
    private static let allBytesMax = LogSegment.columnBytesMax / 2 - (1 << 20)

    private let changeset: [UInt8]
    /// True if the changeset is that of the entry, and only names the objects.
    private let hasNamesOnly: Bool

    /// - Parameters:
    ///   - touched: the objects that exist before or after the entry.
    ///   - state: the state before the entry.
    ///   - later: the state after it.
    ///   - fields: by class, the properties that somebody can ask for.
    init(
        of touched: [ObjectReference], in state: ObjectGraph, before later: ObjectGraph, only fields: FieldNames
    ) throws(HistoryError) {
        let bytesMax = min(Self.bytesMax + Self.objectBytesMax * touched.count, Self.allBytesMax)
        var changesets = ObjectChangesets(
            of: touched, in: state, before: later, only: fields.byClass, endingAt: bytesMax)
        do { changeset = try changesets.next() ?? [] } catch { throw HistoryError(readingStateFailed: error) }
        hasNamesOnly = changeset.count >= bytesMax
    }

    /// Reads the before-image of an entry; nil if it has none.
    init?(of entry: LogEntry) throws(HistoryError) {
        guard !entry.section.isEmpty else { return nil }
        guard let content = Self.content(of: entry.section) else {
            throw HistoryError(.storeDamaged, "entry \(entry.version) has a section that cannot be read")
        }
        hasNamesOnly = entry.section.first == Self.tagOfNames
        changeset = hasNamesOnly ? entry.changeset : content
    }

    private static func content(of section: [UInt8]) -> [UInt8]? {
        guard section.first == tag || section.first == tagOfNames else { return nil }
        var count = 0, shift = 0
        for (index, byte) in section.dropFirst().enumerated() where shift < 63 {
            count |= Int(byte & 0x7F) << shift
            shift += 7
            guard byte & 0x80 == 0 else { continue }
            let start = index + 2
            return section.count - start == count ? Array(section[start...]) : nil
        }
        return nil
    }

    /// The section of the entry.
    var section: [UInt8] {
        guard !changeset.isEmpty else { return [] }
        guard !hasNamesOnly else { return [Self.tagOfNames, 0] }
        var section = [Self.tag], count = changeset.count
        while count > 0x7F {
            section.append(UInt8(truncatingIfNeeded: count) | 0x80)
            count >>= 7
        }
        section.append(UInt8(truncatingIfNeeded: count))
        return section + changeset
    }

    /// Makes a state what it was before the entry, except for the objects in `known`, which earlier entries have put
    /// back; those that it puts back are among them afterwards.
    /// - Returns: those that it only names, which stay as they are.
    func apply(
        to state: inout ObjectGraph, passingOver known: inout Set<ObjectReference>
    ) throws(HistoryError) -> Set<ObjectReference> {
        var arena = ChangesetArena()
        let index: ChangesetIndex
        do { index = try arena.decode(changeset, version: 1, tag: OriginTag(timestamp: 0, ident: .server)) } catch {
            throw HistoryError(.storeDamaged, "a before-image cannot be decoded: \(error.reason)")
        }
        var passedOver: Set<ObjectKeyID> = [], named: Set<ObjectReference> = []
        for object in arena.touchedObjects(of: index) {
            let reference = try state.reference(to: object)
            if !known.insert(reference).inserted { passedOver.insert(object.id) } else { named.insert(reference) }
        }
        if hasNamesOnly || named.isEmpty { return named }
        arena.discardInstructions(on: passedOver, of: index)
        do { _ = try state.applyTransactions([index], of: &arena) { _ in false } } catch {
            guard error.code == .unavailable else {
                throw HistoryError(.storeDamaged, "a before-image cannot be applied: \(error)")
            }
            throw HistoryError(readingStateFailed: error)
        }
        return []
    }
}

extension ObjectGraph {
    /// - Throws: `storeDamaged` if there is no such class: a flexible file never loses one.
    func reference(to object: TouchedObject) throws(HistoryError) -> ObjectReference {
        guard let number = classID(of: object.className) else {
            throw HistoryError(.storeDamaged, "there is no class \(String(decoding: object.className, as: UTF8.self))")
        }
        return ObjectReference(classID: number, key: object.key)
    }
}
