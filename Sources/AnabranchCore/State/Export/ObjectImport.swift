// Creates the objects of lines, or gives them the fields that they lack (`Spec/Export.md`, section 3).

extension WriteTransaction {
    /// Creates an object, if it does not exist, and gives it the fields of a line. What it holds already is not written
    /// again, and fields that the line does not have stay as they are.
    ///
    /// - Parameter writesEqual: whether a value, not a collection, is written that the object holds already.
    /// - Returns: whether something was written.
    /// - Throws: `LineError` before anything is written; `ApplyError` afterwards: the transaction cannot be used any
    ///   more then.
    package func importObject(
        _ className: String, _ keyJSON: JSONValue, _ fields: [JSONName: JSONValue], writesEqual: Bool = false
    ) throws -> Bool {
        let name = Array(className.utf8)
        guard let number = editor.schema.number(of: name) else { throw LineError("there is no class \(className)") }
        let state = editor.schema[number]
        guard state.kind == .topLevel else {
            throw LineError("objects of \(className) are not stored for themselves: it is embedded or asymmetric")
        }
        guard let key = PrimaryKey(exported: keyJSON) else { throw LineError(noKey: keyJSON) }
        do throws(ApplyError) { try editor.checkKey(key, of: number) } catch { throw LineError(error) }
        var values: [(name: [UInt8], place: Place, value: ExportedValue)] = []
        for (field, json) in fields {
            guard let place = state.place(of: Array(field.utf8)) else {
                throw LineError(field: field.text, "the class \(className) has no such field")
            }
            do throws(LineError) {
                values.append((Array(field.utf8), place, try ExportedValue(json, at: place, in: editor.schema)))
            } catch {
                throw LineError(field: field.text, error.reason)
            }
        }
        linksMayDangle = true
        defer { linksMayDangle = false }
        let reference = ObjectReference(classID: number, key: key.normalised)
        let isNew = try !editor.exists(reference)
        if isNew { try create(name, key, [:], areDefaults: false) }
        var isChanged = isNew
        for (_, place, value) in values.sorted(by: { $0.place.slot < $1.place.slot }) {
            let location = Location(reference, place)
            if try put(value, at: location) {
                isChanged = true
            } else if writesEqual, case .value(let payload) = value {
                try perform(.update(payload), at: location)
            }
        }
        if isNew, case .globalKey(let key) = reference.key { reserve(key, of: number) }
        return isChanged
    }

    /// Keeps the server from giving the key to another object.
    private func reserve(_ key: GlobalKey, of number: ClassID) {
        guard key.high == ident.rawValue, key.low >= editor.schema[number].nextGlobalKey else { return }
        editor.graph.schema[number].nextGlobalKey = key.low + 1
        editor.changes.isSchemaChanged = true
    }

    /// Makes a value stand at a place, with the fewest instructions that do it.
    ///
    /// - Returns: whether something was written.
    func put(_ value: ExportedValue, at location: Location) throws(ApplyError) -> Bool {
        guard let content = try content(at: location) else { throw located(.invalid("there is nothing"), location) }
        let current = try ExportedValue(content, at: location.place, in: editor.schema)
        guard current.text != value.text else { return false }
        switch value {
        case .value(let payload):
            if let other = try neutral(content, payload, location.place) {
                try perform(.update(other), at: location)
            }
            try perform(.update(payload), at: location)
        case .object(let fields): try put(fields, at: location, isThere: current.payload == .objectValue)
        case .list(let elements): try put(elements, over: current, at: location)
        case .dictionary(let entries): try put(entries, over: current, at: location)
        case .set(let elements): return try put(setOf: elements, over: current, at: location)
        }
        return true
    }

    /// The value to write before a number that is equal to the one there, but not the same, and which would not be
    /// written otherwise (`Spec/State.md`, B5); nil for any other value.
    private func neutral(_ old: Content, _ new: Payload, _ place: Place) throws(ApplyError) -> Payload? {
        guard [.float, .double, .decimal].contains(new.type), let content = try editor.value(new),
            old.scalarType == content.scalarType, Content.compare(old, content) == 0
        else { return nil }
        if place.isNullable { return .null }
        return switch place.type {
        case .float: .float(1)
        case .double: .double(1)
        default: .decimal(Decimal128(low: 1, high: Decimal128.zero.high))
        }
    }

    private func put(
        _ fields: [(name: [UInt8], value: ExportedValue)], at location: Location, isThere: Bool
    ) throws(ApplyError) {
        if !isThere { try perform(.update(.objectValue), at: location) }
        for (name, value) in fields {
            guard let place = editor.schema[location.place.target].place(of: name) else { continue }
            _ = try put(value, at: location.appending(place, named: name))
        }
    }

    /// Keeps the common beginning and the common end, and in between changes as many elements as there are in both.
    private func put(
        _ elements: [ExportedValue], over current: ExportedValue, at location: Location
    ) throws(ApplyError) {
        var old: [ExportedValue] = []
        if case .list(let present) = current { old = present } else { try perform(.update(.list), at: location) }
        let oldTexts = old.map(\.text), texts = elements.map(\.text)
        let first = zip(oldTexts, texts).prefix { $0 == $1 }.count
        let rest = min(oldTexts.count, texts.count) - first
        let last = zip(oldTexts.reversed(), texts.reversed()).prefix(rest).prefix { $0 == $1 }.count
        let changed = first..<min(oldTexts.count, texts.count) - last
        for index in changed where oldTexts[index] != texts[index] {
            try put(elements[index], over: old[index], at: location, index, count: old.count)
        }
        var count = old.count
        for index in (changed.upperBound..<old.count - last).reversed() {
            try perform(.erase(priorSize: count), at: location.appending(.index(index)))
            count -= 1
        }
        for index in changed.upperBound..<max(changed.upperBound, elements.count - last) {
            let place = location.appending(.index(index))
            try perform(.insert(elements[index].payload, priorSize: count), at: place)
            _ = try put(elements[index], at: place)
            count += 1
        }
    }

    /// Replaces an element of a list with another one.
    private func put(
        _ element: ExportedValue, over old: ExportedValue, at list: Location, _ index: Int, count: Int
    ) throws(ApplyError) {
        let place = list.appending(.index(index))
        guard case .value(let payload) = element else {
            if old.payload != element.payload {
                try perform(.update(element.payload), at: place, priorSize: count)
            }
            _ = try put(element, at: place)
            return
        }
        if let content = try content(at: place), let other = try neutral(content, payload, place.place) {
            try perform(.update(other), at: place, priorSize: count)
        }
        try perform(.update(payload), at: place, priorSize: count)
    }

    private func put(
        _ entries: [(key: [UInt8], value: ExportedValue)], over current: ExportedValue, at location: Location
    ) throws(ApplyError) {
        var old: Set<[UInt8]> = []
        if case .dictionary(let present) = current {
            old = Set(present.map(\.key))
        } else {
            try perform(.update(.dictionary), at: location)
        }
        for key in old.subtracting(entries.map(\.key)).sorted(by: { $0.compare($1) < 0 }) {
            try perform(.update(.erased), at: location.appending(.name(key)))
        }
        for (key, value) in entries {
            let place = location.appending(.name(key))
            if !old.contains(key) { try perform(.update(value.payload), at: place) }
            _ = try put(value, at: place)
        }
    }

    /// - Returns: whether something was written: of equal numbers a set holds one.
    private func put(
        setOf elements: [ExportedValue], over current: ExportedValue, at location: Location
    ) throws(ApplyError) -> Bool {
        guard case .set(let old) = current else { return false }
        let wanted = Set(elements.map(\.text))
        let gone = old.filter { !wanted.contains($0.text) }
        var isChanged = !gone.isEmpty
        if location.place.holdsTypedNulls, gone.contains(where: { $0.payload == .null }) {
            // Null alone cannot be taken out.
            try perform(.clear(.set), at: location)
        } else {
            for element in gone { try perform(.setErase(element.payload), at: location) }
        }
        let set = try DynamicSet(self, at: location)
        for element in elements where try !set.contains(element.payload) {
            try perform(.setInsert(element.payload), at: location)
            isChanged = true
        }
        return isChanged
    }
}
