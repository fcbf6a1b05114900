// The effects of instructions on lists, dictionaries and sets (`Spec/State.md`, B5 to B9).

extension GraphEditor {
    // MARK: A whole collection column (B8, B9)

    mutating func act(
        onCollection content: inout Content, at place: Place, _ edit: Edit
    ) throws(ApplyError) -> Effect {
        switch edit {
        case .clear(let kind):
            guard kind == place.collection || kind == .single else {
                throw .invalid("Clear of another kind of collection")
            }
            return try clearAll(&content)
        case .setInsert(let payload):
            return try change(&content, at: place, payload) { editor, elements, value throws(ApplyError) in
                let found = try editor.find(value, in: elements)
                guard found.element == nil else { return .ignored }
                try editor.recordLink(value, at: place)
                editor.grow(by: value.size)
                try elements.insert(SetElement(content: value), at: found.index)
                return .applied
            }
        case .setErase(let payload):
            if refusals.contains(.nullErasures), place.holdsTypedNulls, case .null? = try value(payload) {
                throw .nullErasure
            }
            return try change(&content, at: place, payload) { editor, elements, value throws(ApplyError) in
                let found = try editor.find(value, in: elements)
                guard let element = found.element else { return .ignored }
                try editor.countErasure(of: element.content)
                editor.grow(by: -element.content.size)
                try elements.remove(at: found.index)
                return .applied
            }
        default: throw .invalid("the path does not fit the instruction")
        }
    }

    private mutating func clearAll(_ content: inout Content) throws(ApplyError) -> Effect {
        switch content {
        case .list(let list) where !list.isEmpty: try set(&content, to: .list(ContentList()))
        case .dictionary(let entries) where !entries.isEmpty: try set(&content, to: .dictionary(ContentDictionary()))
        case .set(let elements) where !elements.isEmpty: try set(&content, to: .set(ContentSet()))
        default: return .ignored
        }
        return .applied
    }

    private mutating func change(
        _ content: inout Content, at place: Place, _ payload: Payload,
        _ body: (inout GraphEditor, inout ContentSet, Content) throws(ApplyError) -> Effect
    ) throws(ApplyError) -> Effect {
        guard place.collection == .set else { throw .invalid("the field is not a set") }
        guard let value = try value(payload), fits(value, place) else {
            throw .invalid("\(payload.type) does not fit the set")
        }
        var elements = content.takeSet() ?? ContentSet()
        defer { content = .set(elements) }
        return try body(&self, &elements, value)
    }

    // MARK: A list element (B5, B7, B8)

    mutating func act(
        on list: inout ContentList, index: Int, at place: Place, _ edit: Edit
    ) throws(ApplyError) -> Effect {
        switch edit {
        case .update(let payload): return try update(&list, index: index, at: place, payload)
        case .insert(let payload, let priorSize):
            guard index <= priorSize, index <= list.count else {
                throw .invalid("index \(index) of a list of \(list.count)")
            }
            try check(priorSize, of: list)
            let content = try element(payload, at: place)
            try recordLink(content, at: place)
            grow(by: content.size)
            try list.insert(ListElement(content: content), at: index)
        case .move(let destination, let priorSize):
            guard index < list.count, destination < list.count else {
                throw .invalid("move from \(index) to \(destination) in a list of \(list.count)")
            }
            guard index != destination else { throw .invalid("move to the same index") }
            try check(priorSize, of: list)
            let element = try list.remove(at: index)
            try list.insert(element, at: destination)
        case .erase(let priorSize):
            guard index < priorSize, index < list.count else {
                throw .invalid("index \(index) of a list of \(list.count)")
            }
            try check(priorSize, of: list)
            let content = try list.remove(at: index).content
            try countErasure(of: content)
            grow(by: -content.size)
        case .clear(let kind):
            guard index < list.count else { throw .invalid("index \(index) of a list of \(list.count)") }
            guard place.isMixed else { throw .undefined("the list does not hold collections") }
            return try list.modify(at: index) { element throws(ApplyError) in
                try self.clear(&element.content, kind)
            }
        case .addInteger, .setInsert, .setErase: throw .invalid("the path ends in a list index")
        }
        return .applied
    }

    private func check(_ priorSize: Int, of list: ContentList) throws(ApplyError) {
        guard priorSize == list.count else { throw .invalid("prior size \(priorSize) of a list of \(list.count)") }
    }

    /// The content that an ArrayInsert inserts.
    private func element(_ payload: Payload, at place: Place) throws(ApplyError) -> Content {
        if let value = try value(payload) {
            guard fits(value, place) else { throw .invalid("\(payload.type) does not fit the list") }
            return value
        }
        switch payload {
        case .objectValue:
            guard place.isEmbedded else { throw .invalid("the list holds no embedded objects") }
            return .object(Fields())
        case .erased: throw .invalid("only a dictionary entry can be erased")
        default:
            guard place.isMixed else { throw .undefined("the list does not hold collections") }
            guard payload != .set else { throw .rejected("a set cannot be nested") }
            return payload == .list ? .list(ContentList()) : .dictionary(ContentDictionary())
        }
    }

    /// Updates an element of a list. The prior size of an Update is not checked.
    private mutating func update(
        _ list: inout ContentList, index: Int, at place: Place, _ payload: Payload
    ) throws(ApplyError) -> Effect {
        let value = try value(payload)
        if let value, !fits(value, place) { throw .invalid("\(payload.type) does not fit the list") }
        if payload == .objectValue { return .ignored }
        if payload == .erased { throw .invalid("only a dictionary entry can be erased") }
        guard index < list.count else { throw .rejected("index \(index) of a list of \(list.count)") }
        guard let value else {
            guard payload != .set else { throw .rejected("a set cannot be nested") }
            guard place.isMixed else { throw .rejected("the list does not hold collections") }
            return try list.modify(at: index) { element throws(ApplyError) in
                try makeCollection(payload, in: &element.content)
            }
        }
        try list.modify(at: index) { element throws(ApplyError) in
            try self.store(value, over: &element.content, at: place)
        }
        return .applied
    }

    // MARK: A dictionary entry (B5, B8)

    mutating func act(
        on entries: inout ContentDictionary, key: [UInt8], at place: Place, _ edit: Edit
    ) throws(ApplyError) -> Effect {
        switch edit {
        case .update(let payload): return try update(&entries, key: key, at: place, payload)
        case .clear(let kind):
            let found = try entries.find(key)
            guard found.element != nil else { throw .invalid("no such dictionary key") }
            guard place.isMixed else { throw .rejected("the dictionary does not hold collections") }
            return try entries.modify(at: found.index) { entry throws(ApplyError) in
                try self.clear(&entry.content, kind)
            }
        default: throw .invalid("the path ends in a dictionary key")
        }
    }

    private mutating func update(
        _ entries: inout ContentDictionary, key: [UInt8], at place: Place, _ payload: Payload
    ) throws(ApplyError) -> Effect {
        let value = try value(payload)
        guard key.first != UInt8(ascii: "$"), !key.contains(UInt8(ascii: ".")) else {
            throw .rejected("a dictionary key begins with $ or contains a point")
        }
        let found = try entries.find(key)
        if payload == .erased {
            guard let entry = found.element else {
                guard !refusals.contains(.absentErasures) else { throw .undefined("no such dictionary key") }
                return .ignored
            }
            try countErasure(of: entry.content)
            grow(by: -key.count - entry.content.size)
            try entries.remove(at: found.index)
            return .applied
        }
        var content = found.element?.content ?? .null
        if let value {
            guard fits(value, place) else { throw .rejected("\(payload.type) does not fit the dictionary") }
            try store(value, over: &content, at: place)
        } else if payload == .objectValue {
            guard place.isEmbedded else { throw .rejected("the dictionary holds no embedded objects") }
            try set(&content, to: .object(Fields()))
        } else {
            guard payload != .set else { throw .rejected("a set cannot be nested") }
            guard place.isMixed else { throw .rejected("the dictionary does not hold collections") }
            if try makeCollection(payload, in: &content) == .ignored { return .ignored }
        }
        if found.element != nil {
            try entries.modify(at: found.index) { $0.content = content }
        } else {
            grow(by: key.count + Content.null.size)
            try entries.insert(DictionaryEntry(key: key, content: content), at: found.index)
        }
        return .applied
    }

    // MARK: A place of a Mixed (B8)

    /// Clears whatever is there: the place becomes an empty collection of the kind.
    mutating func clear(_ content: inout Content, _ kind: CollectionType) throws(ApplyError) -> Effect {
        switch kind {
        case .list: try set(&content, to: .list(ContentList()))
        case .dictionary: try set(&content, to: .dictionary(ContentDictionary()))
        case .set: throw .rejected("a set cannot be nested")
        case .single: throw .undefined("Clear without a kind of collection")
        }
        return .applied
    }
}
