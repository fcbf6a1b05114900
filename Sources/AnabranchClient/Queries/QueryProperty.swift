import AnabranchCore

/// A property in a condition: `Chore.where { $0.title.contains("milk") && $0.due < .now }`.
///
/// A path leads on to the properties of linked and embedded objects, including those in collections: if there are
/// several values at its end, one of them has to fulfil the condition.
@dynamicMemberLookup
public struct QueryProperty<Value>: Sendable {
    let path: QueryText

    /// A property of the object at this path.
    public subscript<Inner: SyncedValue>(
        dynamicMember keyPath: KeyPath<Value._Target, Inner>
    ) -> QueryProperty<Inner> where Value: _QueryTarget {
        do throws(ObjectError) {
            let name = try Value._name(of: keyPath).queryName
            let isRoot = path.parts.isEmpty
            return QueryProperty<Inner>(path: isRoot ? QueryText(name) : path + ("." + name))
        } catch {
            return QueryProperty<Inner>(path: QueryText("", error: error))
        }
    }
}

/// A type whose properties conditions can name.
public protocol _QueryTarget {
    associatedtype _Target = Self
    static func _name(of keyPath: PartialKeyPath<_Target>) throws(ObjectError) -> String
}

extension SyncedObject {
    /// The name of the property that a key path leads to.
    public static func _name(of keyPath: PartialKeyPath<Self>) throws(ObjectError) -> String {
        try ObjectSchema.of(Self.self).field(keyPath).name
    }
}

extension EmbeddedObject {
    /// The name of the property that a key path leads to.
    public static func _name(of keyPath: PartialKeyPath<Self>) throws(ObjectError) -> String {
        try ObjectSchema.of(Self.self).field(keyPath).name
    }
}

extension Link: _QueryTarget {
    public static func _name(of keyPath: PartialKeyPath<Target>) throws(ObjectError) -> String {
        try Target._name(of: keyPath)
    }
}

extension Optional: _QueryTarget where Wrapped: _QueryTarget {
    public static func _name(of keyPath: PartialKeyPath<Wrapped._Target>) throws(ObjectError) -> String {
        try Wrapped._name(of: keyPath)
    }
}

extension Array: _QueryTarget where Element: _QueryTarget {
    public static func _name(of keyPath: PartialKeyPath<Element._Target>) throws(ObjectError) -> String {
        try Element._name(of: keyPath)
    }
}

extension Set: _QueryTarget where Element: _QueryTarget {
    public static func _name(of keyPath: PartialKeyPath<Element._Target>) throws(ObjectError) -> String {
        try Element._name(of: keyPath)
    }
}

extension Dictionary: _QueryTarget where Key == String, Value: _QueryTarget {
    public static func _name(of keyPath: PartialKeyPath<Value._Target>) throws(ObjectError) -> String {
        try Value._name(of: keyPath)
    }
}

// MARK: - Conditions

/// A condition that an object has to fulfil.
public protocol QueryCondition: Sendable {
    /// The condition as a whole.
    var condition: ObjectCondition { get }
}

/// A condition in a query, made by comparing properties and combined by `&&`, `||` and `!`.
public struct ObjectCondition: QueryCondition {
    let text: QueryText

    /// The condition itself.
    public var condition: ObjectCondition { self }

    init(_ text: QueryText) { self.text = text }
}

extension QueryProperty: QueryCondition where Value == Bool {
    /// The condition that the property is true.
    public var condition: ObjectCondition { ObjectCondition(path + " == true") }
}

/// Both have to be fulfilled.
public func && (left: some QueryCondition, right: some QueryCondition) -> ObjectCondition {
    ObjectCondition("(" + left.condition.text + ") AND (" + right.condition.text + ")")
}

/// One of them has to be fulfilled.
public func || (left: some QueryCondition, right: some QueryCondition) -> ObjectCondition {
    ObjectCondition("(" + left.condition.text + ") OR (" + right.condition.text + ")")
}

/// It must not be fulfilled.
public prefix func ! (condition: some QueryCondition) -> ObjectCondition {
    ObjectCondition("NOT (" + condition.condition.text + ")")
}

extension QueryProperty where Value: SyncedValue {
    /// The property has this value.
    public static func == (left: QueryProperty, right: Value) -> ObjectCondition { left.compared("==", right) }
    /// The property has another value.
    public static func != (left: QueryProperty, right: Value) -> ObjectCondition { left.compared("!=", right) }
    /// The property has a lesser value. Null is less than every text; with other types it is neither less nor greater.
    public static func < (left: QueryProperty, right: Value) -> ObjectCondition { left.compared("<", right) }
    /// The property has a lesser value or this one; for null see `<`.
    public static func <= (left: QueryProperty, right: Value) -> ObjectCondition { left.compared("<=", right) }
    /// The property has a greater value; for null see `<`.
    public static func > (left: QueryProperty, right: Value) -> ObjectCondition { left.compared(">", right) }
    /// The property has a greater value or this one; for null see `<`.
    public static func >= (left: QueryProperty, right: Value) -> ObjectCondition { left.compared(">=", right) }

    /// Both properties have the same value.
    public static func == (left: QueryProperty, right: QueryProperty) -> ObjectCondition {
        ObjectCondition(left.path + " == " + right.path)
    }
    /// The properties have different values.
    public static func != (left: QueryProperty, right: QueryProperty) -> ObjectCondition {
        ObjectCondition(left.path + " != " + right.path)
    }
    /// The value of the first one is less.
    public static func < (left: QueryProperty, right: QueryProperty) -> ObjectCondition {
        ObjectCondition(left.path + " < " + right.path)
    }
    /// The value of the first one is greater.
    public static func > (left: QueryProperty, right: QueryProperty) -> ObjectCondition {
        ObjectCondition(left.path + " > " + right.path)
    }

    /// The property has one of these values.
    public func isIn(_ values: some Sequence<Value>) -> ObjectCondition {
        ObjectCondition(path + " IN " + QueryText.values(Array(values)))
    }

    /// The property has a value from the first to the last one, both included.
    public func isBetween(_ first: Value, _ last: Value) -> ObjectCondition { self >= first && self <= last }

    private func compared(_ relation: String, _ value: Value) -> ObjectCondition {
        ObjectCondition(path + " \(relation) " + QueryText.value(value))
    }
}

/// `String`, or `String?`.
public protocol _QueryString {}
extension String: _QueryString {}
extension Optional: _QueryString where Wrapped == String {}

extension QueryProperty where Value: _QueryString {
    /// The text contains another one.
    public func contains(_ text: String, ignoringCase: Bool = false) -> ObjectCondition {
        matches("CONTAINS", text, ignoringCase)
    }
    /// The text begins with another one.
    public func hasPrefix(_ text: String, ignoringCase: Bool = false) -> ObjectCondition {
        matches("BEGINSWITH", text, ignoringCase)
    }
    /// The text ends with another one.
    public func hasSuffix(_ text: String, ignoringCase: Bool = false) -> ObjectCondition {
        matches("ENDSWITH", text, ignoringCase)
    }
    /// The text is like a pattern, in which `*` stands for any characters and `?` for one.
    public func like(_ pattern: String, ignoringCase: Bool = false) -> ObjectCondition {
        matches("LIKE", pattern, ignoringCase)
    }

    private func matches(_ relation: String, _ text: String, _ ignoringCase: Bool) -> ObjectCondition {
        ObjectCondition(path + " \(relation)\(ignoringCase ? "[c]" : "") " + QueryText.value(text))
    }
}

// MARK: Collections

/// An array, a set or a dictionary.
public protocol _QueryCollection {
    associatedtype _Element: SyncedValue
}
extension Array: _QueryCollection where Element: SyncedValue { public typealias _Element = Element }
extension Set: _QueryCollection where Element: SyncedValue { public typealias _Element = Element }
extension Dictionary: _QueryCollection where Key == String, Value: SyncedValue { public typealias _Element = Value }

extension QueryProperty where Value: _QueryCollection {
    /// The number of elements.
    public var count: QueryProperty<Int> { QueryProperty<Int>(path: path + ".@count") }
    /// Any of the elements: `$0.tags.any == "home"`.
    public var any: QueryProperty<Value._Element> { QueryProperty<Value._Element>(path: "ANY " + path) }
    /// Every element: `$0.tags.all == "home"` also holds if there are none.
    public var all: QueryProperty<Value._Element> { QueryProperty<Value._Element>(path: "ALL " + path) }
    /// No element: `$0.tags.none == "home"` also holds if there are none.
    public var none: QueryProperty<Value._Element> { QueryProperty<Value._Element>(path: "NONE " + path) }
    /// The least element.
    public var min: QueryProperty<Value._Element> { QueryProperty<Value._Element>(path: path + ".@min") }
    /// The greatest element.
    public var max: QueryProperty<Value._Element> { QueryProperty<Value._Element>(path: path + ".@max") }
    /// The sum of the elements, which are numbers; 0 if there are none.
    public var sum: QueryProperty<Value._Element> { QueryProperty<Value._Element>(path: path + ".@sum") }
    /// The average of the elements.
    public var average: QueryProperty<Double> { QueryProperty<Double>(path: path + ".@avg") }

    /// An element equals this one.
    public func contains(_ element: Value._Element) -> ObjectCondition { any == element }
}

extension QueryProperty {
    /// The value of a key of a dictionary.
    public subscript<Element: SyncedValue>(key: String) -> QueryProperty<Element> where Value == [String: Element] {
        QueryProperty<Element>(path: path + "[\"\(key.escaping("\\\"", with: UInt8(ascii: "\\")))\"]")
    }
}
