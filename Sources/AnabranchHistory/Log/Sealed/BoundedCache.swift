/// Keeps the values used last, up to a number of bytes. There are two generations; the older one is dropped as a whole,
/// and a value that is used again moves to the newer one.
struct BoundedCache<Key: Hashable, Value> {
    private struct Element {
        var value: Value
        var byteCount: Int
    }

    private let bytesMax: Int
    private var young: [Key: Element] = [:]
    private var old: [Key: Element] = [:]
    private var youngBytes = 0, oldBytes = 0

    /// - Parameter bytesMax: the memory that the values may occupy together.
    init(bytesMax: Int) { self.bytesMax = bytesMax }

    /// The memory that the values occupy, in bytes.
    var byteCount: Int { youngBytes + oldBytes }

    mutating func find(_ key: Key) -> Value? {
        if let element = young[key] { return element.value }
        guard let element = old.removeValue(forKey: key) else { return nil }
        oldBytes -= element.byteCount
        insert(element, key)
        return element.value
    }

    /// - Parameter byteCount: the memory that the value occupies; a value of more than half of the limit is not kept.
    mutating func keep(_ value: Value, as key: Key, byteCount: Int) {
        guard byteCount <= bytesMax / 2, young[key] == nil, old[key] == nil else { return }
        insert(Element(value: value, byteCount: byteCount), key)
    }

    private mutating func insert(_ element: Element, _ key: Key) {
        if youngBytes + element.byteCount > bytesMax / 2 {
            (old, oldBytes) = (young, youngBytes)
            (young, youngBytes) = ([:], 0)
        }
        young[key] = element
        youngBytes += element.byteCount
    }
}
