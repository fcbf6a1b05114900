import AnabranchCore
import AnabranchQuery

/// Which objects of a state hold a value, for the properties of which queries want certain values: so that a query
/// finds its objects without asking all of them. In memory, made of the state when it is first needed.
struct ObjectIndex {
    /// How many values of objects are kept. A property that would go beyond it is not indexed: all objects are asked.
    static let valuesMax = 1_000_000

    /// The keys in order.
    private var keys: [Property: [Payload: [PrimaryKey]]] = [:]
    private var valueCount = 0
    private var tooLarge: Set<Property> = []

    // MARK: Asking

    /// The objects of a class that can match one of some queries, in order, and perhaps others; nil if all have to be
    /// asked.
    mutating func objects(
        of number: ClassID, at places: [QueryIndex], in state: ObjectGraph
    ) throws(HistoryError) -> [ObjectReference]? {
        var values: Set<FieldValue> = []
        for place in places {
            switch place {
            case .never: break
            case .always, .evaluated: return nil
            case .oneOf(let wanted): values.formUnion(wanted)
            }
        }
        var found: Set<PrimaryKey> = []
        for value in values {
            if value.property.isKey {
                if let key = PrimaryKey(value.value) { found.insert(key) }
            } else {
                guard try make(value.property, of: number, in: state) else { return nil }
                found.formUnion(keys[value.property]?[value.value] ?? [])
            }
        }
        return found.sorted().map { ObjectReference(classID: number, key: $0) }
    }

    /// - Returns: whether there is an index of the property now.
    private mutating func make(
        _ property: Property, of number: ClassID, in state: ObjectGraph
    ) throws(HistoryError) -> Bool {
        if keys[property] != nil { return true }
        guard !tooLarge.contains(property) else { return false }
        var made: [Payload: [PrimaryKey]] = [:], count = 0
        let room = Self.valuesMax - valueCount
        try state.visit(number) { object throws(HistoryError) in
            guard let key = object.key, count <= room else { return }
            for value in object.indexedValues(of: property) {
                made[value.value, default: []].append(key)
                count += 1
            }
        }
        guard count <= room else {
            tooLarge.insert(property)
            return false
        }
        keys[property] = made
        valueCount += count
        return true
    }

    // MARK: Changing

    /// What becomes of one object.
    struct Change {
        fileprivate let key: PrimaryKey
        fileprivate let old: Set<FieldValue>
        fileprivate let new: Set<FieldValue>
    }

    /// What a step changes: it is found out before the commit, behind which the old state is gone.
    func changes(by step: LogStep) throws(HistoryError) -> [Change] {
        guard !keys.isEmpty else { return [] }
        var changes: [Change] = []
        for reference in step.touched.keys {
            let before = try step.before.read(reference), after = try step.after.read(reference)
            for property in keys.keys where property.owner == reference.classID {
                let old = before?.indexedValues(of: property) ?? [], new = after?.indexedValues(of: property) ?? []
                if old != new { changes.append(Change(key: reference.key, old: old, new: new)) }
            }
        }
        return changes
    }

    mutating func apply(_ changes: [Change]) {
        for change in changes {
            for value in change.old.subtracting(change.new) { remove(change.key, value) }
            for value in change.new.subtracting(change.old) { insert(change.key, value) }
        }
    }

    private mutating func insert(_ key: PrimaryKey, _ value: FieldValue) {
        keys[value.property]?[value.value, default: []].insert(sorted: key)
        valueCount += 1
    }

    private mutating func remove(_ key: PrimaryKey, _ value: FieldValue) {
        keys[value.property]?[value.value]?.remove(sorted: key)
        if keys[value.property]?[value.value]?.isEmpty == true { keys[value.property]?[value.value] = nil }
        valueCount -= 1
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

    fileprivate mutating func insert(sorted key: PrimaryKey) {
        let index = index(of: key)
        if index == count || self[index] != key { insert(key, at: index) }
    }

    fileprivate mutating func remove(sorted key: PrimaryKey) {
        let index = index(of: key)
        if index < count, self[index] == key { remove(at: index) }
    }
}
