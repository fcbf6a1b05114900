import AnabranchCore
import AnabranchQuery

/// The objects of a state by value, for the properties that queries want certain values of: so that a query finds its
/// objects without looking at all of them. In memory, made from the state when it is first needed, in steps between
/// which others commit.
struct ObjectIndex {
    /// About the largest size of what is kept, in bytes. A property that would exceed it, or does so later, is not
    /// indexed: all objects are asked.
    var bytesMax = 128 << 20
    /// The most properties of a class that are indexed: each change of one of its objects looks at all of them.
    static let propertiesMax = 64
    /// The size of a value beside its own bytes.
    private static let valueBytes = 128

    /// By property and value, the keys in order.
    private var keys: [Property: [Payload: [PrimaryKey]]] = [:]
    /// By property whose index is not finished, the last key that it has.
    private var reached: [Property: PrimaryKey] = [:]
    /// The properties of which `keep` has forgotten a part of an index: as long as it may do so again, all objects are
    /// asked, which goes on whatever others write.
    private var interrupted: Set<Property> = []
    private var byteCounts: [Property: Int] = [:]
    private var tooLarge: Set<Property> = []

    /// The approximate size of what is kept, in bytes.
    var byteCount: Int { byteCounts.values.reduce(0, +) }

    // MARK: Asking

    /// Makes what `objects` and `difference` need, as far as the step goes; otherwise they make it at once.
    /// - Returns: whether the step was enough.
    mutating func prepare(
        for places: [QueryIndex], of number: ClassID, in state: ObjectGraph, until limit: StepLimit
    ) throws(HistoryError) -> Bool {
        guard let values = places.values, hasRoom(for: values, of: number) else { return true }
        let properties = Set(values.map(\.property)).filter { !$0.isKey }
        for property in properties.sorted(by: { $0.slot ?? 0 < $1.slot ?? 0 }) {
            guard try make(property, of: number, in: state, until: limit) else { return false }
        }
        return true
    }

    /// The objects of a class that can match one of some queries, in order, and perhaps others; nil if all have to be
    /// tried.
    mutating func objects(
        of number: ClassID, at places: [QueryIndex], in state: ObjectGraph
    ) throws(HistoryError) -> [ObjectReference]? {
        guard let values = places.values else { return nil }
        return try objects(with: values, butNot: [], of: number, in: state)
    }

    /// The objects of a class that match one filter and not the other, if values alone decide about both; no object has
    /// to be read for that.
    mutating func difference(
        from before: ObjectFilter, to after: ObjectFilter, of number: ClassID, in state: ObjectGraph
    ) throws(HistoryError) -> (leaving: [ObjectReference], entering: [ObjectReference])? {
        guard let old = before.decidingValues, let new = after.decidingValues,
            let leaving = try objects(with: old.subtracting(new), butNot: new, of: number, in: state),
            let entering = try objects(with: new.subtracting(old), butNot: old, of: number, in: state)
        else { return nil }
        return (leaving, entering)
    }

    private mutating func objects(
        with values: Set<FieldValue>, butNot others: Set<FieldValue>, of number: ClassID, in state: ObjectGraph
    ) throws(HistoryError) -> [ObjectReference]? {
        guard hasRoom(for: values.union(others), of: number) else { return nil }
        var found: [PrimaryKey] = []
        for value in values {
            guard let keys = try keys(with: value, of: number, in: state) else { return nil }
            found += keys
        }
        for value in others where !found.isEmpty {
            guard let keys = try keys(with: value, of: number, in: state) else { return nil }
            found = found.filter { !keys.contains(sorted: $0) }
        }
        return found.sortedUnique().map { ObjectReference(classID: number, key: $0) }
    }

    /// True if the properties of some values are indexed, or may be.
    private func hasRoom(for values: Set<FieldValue>, of number: ClassID) -> Bool {
        let indexed = keys.keys.filter { $0.owner == number }
        return Set(values.lazy.map(\.property).filter { !$0.isKey }).union(indexed).count <= Self.propertiesMax
    }

    /// The keys of the objects that have a value; nil if they are not known.
    private mutating func keys(
        with value: FieldValue, of number: ClassID, in state: ObjectGraph
    ) throws(HistoryError) -> [PrimaryKey]? {
        if value.property.isKey {
            guard let key = PrimaryKey(value.value) else { return [] }
            return try state.has(ObjectReference(classID: number, key: key)) ? [key] : []
        }
        _ = try make(value.property, of: number, in: state, until: .none)
        return keys[value.property].map { $0[value.value] ?? [] }
    }

    /// Makes the index of a property, unless it would be too large, as far as the step goes.
    /// - Returns: whether the step was enough.
    private mutating func make(
        _ property: Property, of number: ClassID, in state: ObjectGraph, until limit: StepLimit
    ) throws(HistoryError) -> Bool {
        if tooLarge.contains(property) || interrupted.contains(property) { return true }
        if keys[property] != nil, reached[property] == nil { return true }
        // Taken out, so that they are not copied.
        var made = keys.removeValue(forKey: property) ?? [:], bytes = byteCounts.removeValue(forKey: property) ?? 0
        var last = reached.removeValue(forKey: property), isOver = false
        let room = bytesMax - byteCount
        try state.visit(number, after: last, reading: { $0 == property.slot }) { object throws(HistoryError) in
            guard let key = object.key else { return true }
            last = key
            for value in object.indexedValues(of: property) {
                made[value.value, default: []].append(key)
                bytes += Self.byteCount(of: value.value, key)
            }
            isOver = limit.isOver
            return bytes <= room && !isOver
        }
        guard bytes <= room else {
            tooLarge.insert(property)
            return true
        }
        if isOver {
            reached[property] = last
        } else {
            // Without the room that growing arrays have.
            for place in made.values.indices { made.values[place] = made.values[place].map { $0 } }
        }
        keys[property] = made
        byteCounts[property] = bytes
        return !isOver
    }

    private static func byteCount(of value: Payload, _ key: PrimaryKey) -> Int {
        let keyBytes = if case .string(let text) = key { text.count } else { 0 }
        return switch value {
        case .string(let bytes), .binary(let bytes): valueBytes + keyBytes + bytes.count
        default: valueBytes + keyBytes
        }
    }

    // MARK: Changing

    /// The change of one object's values of a property.
    struct Change {
        fileprivate let key: PrimaryKey
        fileprivate let old: Set<FieldValue>
        fileprivate let new: Set<FieldValue>
    }

    /// The changes that a step makes: to be found out before the commit, after which the old state is gone.
    func changes(by step: LogStep) throws(HistoryError) -> [Change] {
        guard !keys.isEmpty else { return [] }
        var changes: [Change] = []
        for reference in step.touched.keys {
            let properties = keys.keys.filter { $0.owner == reference.classID }
            func isWanted(_ slot: Int) -> Bool { properties.contains { $0.slot == slot } }
            let before = try step.before.read(reference, isWanted), after = try step.after.read(reference, isWanted)
            for property in properties where reached[property].map({ reference.key <= $0 }) ?? true {
                let old = before?.indexedValues(of: property) ?? [], new = after?.indexedValues(of: property) ?? []
                if old != new { changes.append(Change(key: reference.key, old: old, new: new)) }
            }
        }
        return changes
    }

    /// Forgets the properties that a state has and before-images may lack: how objects were is not known.
    mutating func keep(_ fields: FieldNames, in state: ObjectGraph) {
        func areKnown(_ property: Property) -> Bool {
            fields.byClass[state.schema(of: property.owner)?.name ?? []]?.contains(property.name) == true
        }
        interrupted = interrupted.filter { !areKnown($0) }
        for property in keys.keys.filter({ !areKnown($0) }) {
            if reached[property] != nil { interrupted.insert(property) }
            (keys[property], byteCounts[property], reached[property]) = (nil, nil, nil)
        }
    }

    mutating func apply(_ changes: [Change]) {
        for change in changes {
            for value in change.old.subtracting(change.new) { remove(change.key, value) }
            for value in change.new.subtracting(change.old) { insert(change.key, value) }
        }
        while byteCount > bytesMax, let largest = byteCounts.max(by: { $0.value < $1.value })?.key {
            (keys[largest], byteCounts[largest], reached[largest]) = (nil, nil, nil)
            tooLarge.insert(largest)
        }
    }

    private mutating func insert(_ key: PrimaryKey, _ value: FieldValue) {
        keys[value.property]?[value.value, default: []].insert(sorted: key)
        byteCounts[value.property]? += Self.byteCount(of: value.value, key)
    }

    private mutating func remove(_ key: PrimaryKey, _ value: FieldValue) {
        keys[value.property]?[value.value]?.remove(sorted: key)
        if keys[value.property]?[value.value]?.isEmpty == true { keys[value.property]?[value.value] = nil }
        byteCounts[value.property]? -= Self.byteCount(of: value.value, key)
    }
}

extension [QueryIndex] {
    /// The values of which an object has one that matches one of these queries; nil if values do not tell.
    fileprivate var values: Set<FieldValue>? {
        var values: Set<FieldValue> = []
        for place in self {
            switch place {
            case .never: break
            case .always, .evaluated: return nil
            case .oneOf(let wanted): values.formUnion(wanted)
            }
        }
        return values
    }
}

extension [PrimaryKey] {
    private func index(of key: PrimaryKey) -> Int {
        var range = 0..<count
        while !range.isEmpty {
            let middle = range.lowerBound + range.count / 2
            range = self[middle] < key ? middle + 1..<range.upperBound : range.lowerBound..<middle
        }
        return range.lowerBound
    }

    fileprivate func contains(sorted key: PrimaryKey) -> Bool {
        let index = index(of: key)
        return index < count && self[index] == key
    }

    fileprivate mutating func insert(sorted key: PrimaryKey) {
        let index = index(of: key)
        if index == count || self[index] != key { insert(key, at: index) }
    }

    fileprivate mutating func remove(sorted key: PrimaryKey) {
        let index = index(of: key)
        if index < count, self[index] == key { remove(at: index) }
    }
}
