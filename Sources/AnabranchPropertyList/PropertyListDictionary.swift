import AnabranchCore

/// Values by their keys, in the order of the keys' bytes. Two keys are the same if their bytes are: "é" is not
/// "e\u{301}".
public struct PropertyListDictionary: Sendable {
    private var entries: [Element]

    /// A dictionary without values.
    public init() { entries = [] }

    /// Creates a dictionary of values, whose keys may come twice.
    /// - Parameter combine: which of two values of a key stays; they are given in the order in which they came.
    public init(
        _ elements: some Sequence<(String, PropertyList)>,
        uniquingKeysWith combine: (PropertyList, PropertyList) -> PropertyList
    ) {
        self.init()
        // Sorting is stable.
        let sorted = elements.sorted { $0.0.precedes($1.0) }
        entries.reserveCapacity(sorted.count)
        for (key, value) in sorted {
            if let last = entries.last, last.key.hasBytes(of: key) {
                entries[entries.count - 1].value = combine(last.value, value)
            } else {
                entries.append((key, value))
            }
        }
    }

    /// - Throws: the number of an element whose key one before it has.
    init(uniqueKeys elements: [Element]) throws(RepeatedKey) {
        entries = elements
        if zip(elements, elements.dropFirst()).allSatisfy({ $0.key.precedes($1.key) }) { return }
        let order = elements.indices.sorted { elements[$0].key.precedes(elements[$1].key) }
        for (index, next) in zip(order, order.dropFirst())
        where elements[index].key.hasBytes(of: elements[next].key) {
            throw RepeatedKey(index: next)
        }
        entries = order.map { elements[$0] }
    }

    struct RepeatedKey: Error { let index: Int }

    /// The keys, in the order of their bytes.
    public var keys: some RandomAccessCollection<String> & Sendable { entries.lazy.map(\.key) }

    /// The value of a key; nil if there is none.
    public subscript(key: String) -> PropertyList? {
        get {
            let index = place(of: key)
            return hasKey(key, at: index) ? entries[index].value : nil
        }
        set {
            let index = place(of: key)
            switch (newValue, hasKey(key, at: index)) {
            case (let value?, true): entries[index].value = value
            case (let value?, false): entries.insert((key, value), at: index)
            case (nil, true): entries.remove(at: index)
            case (nil, false): break
            }
        }
    }

    /// Where the key stands, or would stand.
    private func place(of key: String) -> Int {
        var (low, high) = (0, entries.count)
        while low < high {
            let middle = (low + high) / 2
            if entries[middle].key.precedes(key) { low = middle + 1 } else { high = middle }
        }
        return low
    }

    private func hasKey(_ key: String, at index: Int) -> Bool {
        index < entries.count && entries[index].key.hasBytes(of: key)
    }
}

extension PropertyListDictionary: RandomAccessCollection {
    public typealias Element = (key: String, value: PropertyList)
    public var startIndex: Int { 0 }
    public var endIndex: Int { entries.count }
    public subscript(position: Int) -> Element { entries[position] }
}

extension PropertyListDictionary: Hashable, ExpressibleByDictionaryLiteral {
    public static func == (left: Self, right: Self) -> Bool {
        left.elementsEqual(right) { $0.key.hasBytes(of: $1.key) && $0.value == $1.value }
    }

    public func hash(into hasher: inout Hasher) {
        hasher.combine(count)
        for (key, value) in self {
            hasher.combine(ExactString(key))
            hasher.combine(value)
        }
    }

    public init(dictionaryLiteral elements: (String, PropertyList)...) {
        if elements.isEmpty { self.init() } else { self.init(elements) { _, last in last } }
    }
}
