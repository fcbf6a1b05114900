// The collections of objects within a transaction (`Spec/State.md`, C5 to C7).

/// A list in a field, or nested in a Mixed. Indices and counts include dangling links, which read as null.
public struct DynamicList {
    private let transaction: WriteTransaction
    private let location: Location

    init(_ transaction: WriteTransaction, at location: Location) throws(ApplyError) {
        self.transaction = transaction
        self.location = location
        guard case .list = try transaction.content(at: location) else {
            throw transaction.located(.invalid("there is no list"), location)
        }
    }

    /// The number of elements.
    public var count: Int { get throws(ApplyError) { try transaction.count(at: location) } }

    /// The element at an index: `objectValue` for an embedded object, `list` or `dictionary` for a nested collection.
    ///
    /// - Throws: `ApplyError` if the index is not in `0..<count`.
    public func value(at index: Int) throws(ApplyError) -> Payload { try transaction.value(at: try element(index)) }

    /// All elements in order.
    public var values: [Payload] {
        get throws(ApplyError) {
            guard case .list(let list) = try transaction.content(at: location) else { return [] }
            return try list.map { element throws(ApplyError) in try transaction.payload(of: element.content) }
        }
    }

    /// Adds a value at the end; see `insert(_:at:)` for the values that a list takes.
    public func append(_ value: Payload) throws(ApplyError) { try insert(value, at: try count) }

    /// Inserts a value so that it stands at `index`: `objectValue` for a new embedded object, `list` or `dictionary`
    /// for a nested collection.
    ///
    /// - Throws: `ApplyError` if the index is not in `0...count`, or the value does not fit the list.
    public func insert(_ value: Payload, at index: Int) throws(ApplyError) {
        let count = try count
        guard 0...count ~= index else { throw outOfRange(index) }
        try transaction.perform(
            .insert(value.withoutNullMarker, priorSize: count), at: location.appending(.index(index)))
    }

    /// Replaces an element; `objectValue` puts a new embedded object in place of the old one.
    public func set(_ value: Payload, at index: Int) throws(ApplyError) {
        let place = try element(index)
        if value == .objectValue {
            guard location.place.isEmbedded else {
                throw transaction.located(.invalid("the list holds no embedded objects"), location)
            }
            try remove(at: index)
            return try insert(.objectValue, at: index)
        }
        try transaction.perform(.update(value.withoutNullMarker), at: place, priorSize: try count)
    }

    /// Removes an element; those after it move down by one.
    ///
    /// - Throws: `ApplyError` if the index is not in `0..<count`.
    public func remove(at index: Int) throws(ApplyError) {
        let place = try element(index)
        try transaction.perform(.erase(priorSize: try count), at: place)
    }

    /// Removes elements from the last one down.
    ///
    /// - Throws: `ApplyError` if an index is not in `0..<count`; nothing is removed then.
    public func removeSubrange(_ range: Range<Int>) throws(ApplyError) {
        if let first = range.first { _ = try element(first) }
        for index in range.reversed() { try remove(at: index) }
    }

    /// Moves an element so that it stands at `destination` afterwards.
    public func move(from index: Int, to destination: Int) throws(ApplyError) {
        _ = (try element(index), try element(destination))
        try transaction.move(from: index, to: destination, in: location)
    }

    /// Exchanges two elements, recorded as one or two moves.
    ///
    /// - Throws: `ApplyError` if an index is not in `0..<count`.
    public func swapAt(_ first: Int, _ second: Int) throws(ApplyError) {
        let (low, high) = (min(first, second), max(first, second))
        try move(from: high, to: low)
        if low + 1 < high { try move(from: low + 1, to: high) }
    }

    /// Shortens the list, or lengthens it with nulls.
    public func resize(to size: Int) throws(ApplyError) {
        let count = try count
        guard size >= 0 else { throw outOfRange(size) }
        if size < count { return try removeSubrange(size..<count) }
        for _ in count..<size { try append(.null) }
    }

    /// Removes all elements, including those that other clients add at the same time. Nothing is recorded for an empty
    /// list, unless it is nested in a Mixed.
    public func removeAll() throws(ApplyError) {
        try transaction.clear(location, .list)
    }

    /// The embedded object at an index.
    public func object(at index: Int) throws(ApplyError) -> DynamicObject {
        let place = try element(index)
        guard try transaction.value(at: place) == .objectValue else {
            throw transaction.located(.invalid("there is no embedded object"), location)
        }
        return DynamicObject(transaction: transaction, embedding: place)
    }

    /// Adds a new embedded object at the end.
    @discardableResult
    public func appendObject() throws(ApplyError) -> DynamicObject { try insertObject(at: try count) }

    /// Inserts a new embedded object so that it stands at `index`.
    ///
    /// - Throws: `ApplyError` if the index is not in `0...count`, or the list is not one of embedded objects.
    @discardableResult
    public func insertObject(at index: Int) throws(ApplyError) -> DynamicObject {
        try insert(.objectValue, at: index)
        return try object(at: index)
    }

    /// The list nested at an index.
    public func list(at index: Int) throws(ApplyError) -> DynamicList {
        try DynamicList(transaction, at: try element(index))
    }

    /// The dictionary nested at an index.
    public func dictionary(at index: Int) throws(ApplyError) -> DynamicDictionary {
        try DynamicDictionary(transaction, at: try element(index))
    }

    private func element(_ index: Int) throws(ApplyError) -> Location {
        guard try 0..<count ~= index else { throw outOfRange(index) }
        return location.appending(.index(index))
    }

    private func outOfRange(_ index: Int) -> ApplyError {
        transaction.located(.invalid("index \(index) is out of range"), location)
    }
}

/// A dictionary in a field, or nested in a Mixed. A dangling link reads as null.
public struct DynamicDictionary {
    private let transaction: WriteTransaction
    private let location: Location

    init(_ transaction: WriteTransaction, at location: Location) throws(ApplyError) {
        self.transaction = transaction
        self.location = location
        _ = try entries
    }

    private var entries: ContentDictionary {
        get throws(ApplyError) {
            guard case .dictionary(let entries)? = try transaction.content(at: location) else {
                throw transaction.located(.invalid("there is no dictionary"), location)
            }
            return entries
        }
    }

    /// The number of entries.
    public var count: Int { get throws(ApplyError) { try entries.count } }

    /// The keys in the order of their bytes.
    public var keys: [String] {
        get throws(ApplyError) {
            try entries.map { entry throws(ApplyError) in String(decoding: entry.key, as: UTF8.self) }
        }
    }

    /// The value of a key, nil if it is absent; assigning nil removes it. An error is kept until the transaction ends.
    public subscript(key: String) -> Payload? {
        get {
            var value: Payload?
            transaction.assign { () throws(ApplyError) in value = try self.value(for: key) }
            return value
        }
        nonmutating set {
            transaction.assign { () throws(ApplyError) in
                if let newValue { try set(newValue, for: key) } else { try remove(key) }
            }
        }
    }

    /// The value of a key, nil if it is absent: `objectValue` for an embedded object, `list` or `dictionary` for a
    /// nested collection.
    public func value(for key: String) throws(ApplyError) -> Payload? {
        guard let entry = try entries.find(Array(key.utf8)).element else { return nil }
        return try transaction.payload(of: entry.content)
    }

    /// Adds or replaces an entry; `objectValue` is a new embedded object, `list` and `dictionary` a nested collection.
    public func set(_ value: Payload, for key: String) throws(ApplyError) {
        guard value != .erased else { throw transaction.located(.invalid("erased is not a value"), location) }
        try transaction.perform(.update(value.withoutNullMarker), at: entry(key))
    }

    /// Removes an entry; nothing if there is none.
    public func remove(_ key: String) throws(ApplyError) {
        if try value(for: key) != nil { try transaction.perform(.update(.erased), at: entry(key)) }
    }

    /// Removes all entries. Nothing is recorded for an empty dictionary, unless it is nested in a Mixed.
    public func removeAll() throws(ApplyError) {
        try transaction.clear(location, .dictionary)
    }

    /// The embedded object of a key; nil if there is none.
    public func object(for key: String) throws(ApplyError) -> DynamicObject? {
        guard try value(for: key) == .objectValue else { return nil }
        return DynamicObject(transaction: transaction, embedding: entry(key))
    }

    /// A new embedded object, in place of any that is there.
    @discardableResult
    public func createObject(for key: String) throws(ApplyError) -> DynamicObject {
        try set(.objectValue, for: key)
        return DynamicObject(transaction: transaction, embedding: entry(key))
    }

    /// The list nested under a key.
    public func list(for key: String) throws(ApplyError) -> DynamicList {
        try DynamicList(transaction, at: entry(key))
    }

    /// The dictionary nested under a key.
    public func dictionary(for key: String) throws(ApplyError) -> DynamicDictionary {
        try DynamicDictionary(transaction, at: entry(key))
    }

    private func entry(_ key: String) -> Location { location.appending(.name(Array(key.utf8))) }
}

/// A set in a field: distinct values, where 1 and 1.0 are the same (`Spec/State.md`, A7).
public struct DynamicSet {
    private let transaction: WriteTransaction
    private let location: Location

    init(_ transaction: WriteTransaction, at location: Location) throws(ApplyError) {
        self.transaction = transaction
        self.location = location
        _ = try elements
    }

    private var elements: ContentSet {
        get throws(ApplyError) {
            guard case .set(let elements)? = try transaction.content(at: location) else {
                throw transaction.located(.invalid("there is no set"), location)
            }
            return elements
        }
    }

    /// The number of values.
    public var count: Int { get throws(ApplyError) { try elements.count } }

    /// The values in ascending order; dangling links are null.
    public var values: [Payload] {
        get throws(ApplyError) {
            try elements.map { element throws(ApplyError) in try transaction.payload(of: element.content) }
        }
    }

    /// True if the set holds an equal value.
    ///
    /// - Throws: `ApplyError` if a set cannot hold the value, for instance `list`.
    public func contains(_ value: Payload) throws(ApplyError) -> Bool {
        do throws(ApplyError) {
            guard let content = try transaction.editor.value(value) else {
                throw .invalid("\(value.type) is not a value of a set")
            }
            return try elements.find(content).element != nil
        } catch {
            throw transaction.located(error, location)
        }
    }

    /// Adds a value; nothing if an equal one is present.
    public func insert(_ value: Payload) throws(ApplyError) {
        let value = value.withoutNullMarker
        if try !contains(value) { try transaction.perform(.setInsert(value), at: location) }
    }

    /// Removes a value; nothing if no equal one is present.
    public func remove(_ value: Payload) throws(ApplyError) {
        let value = value.withoutNullMarker
        if try contains(value) { try transaction.perform(.setErase(value), at: location) }
    }

    /// Removes all values. Nothing is recorded for an empty set.
    public func removeAll() throws(ApplyError) {
        try transaction.clear(location, .set)
    }

    /// Adds the values that are not present.
    public func formUnion(_ other: [Payload]) throws(ApplyError) {
        for value in other { try insert(value) }
    }

    /// Removes the values that are present.
    public func subtract(_ other: [Payload]) throws(ApplyError) {
        for value in other { try remove(value) }
    }

    /// Keeps only the values that both have; recorded as a Clear and the insertion of these.
    public func formIntersection(_ other: [Payload]) throws(ApplyError) {
        var kept: [Payload] = []
        for value in other where try contains(value) { kept.append(value) }
        try removeAll()
        try formUnion(kept)
    }

    /// Removes what both have, then adds what only the other has.
    public func formSymmetricDifference(_ other: [Payload]) throws(ApplyError) {
        var (common, missing): ([Payload], [Payload]) = ([], [])
        for value in other { if try contains(value) { common.append(value) } else { missing.append(value) } }
        try subtract(common)
        try formUnion(missing)
    }
}
