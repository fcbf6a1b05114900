/// Walks along the places directly below an object or a collection.
protocol PlaceCursor: Sendable {
    /// The next place; nil after the last one.
    mutating func next() throws(ApplyError) -> FilledPlace?
}

/// A place and what it holds.
struct FilledPlace {
    enum Kind {
        case field
        case element(index: Int)
        case entry
        case setElement
    }

    let kind: Kind
    /// The last step of a path to it; nil for an element of a set, to which no path leads.
    let step: PathStep?
    let place: Place
    let content: Content
}

/// The fields of an object, in the order of the given columns.
struct FieldCursor: PlaceCursor {
    private let fields: Fields
    private let columns: [Column]
    private var position = 0

    init(_ fields: Fields, _ columns: [Column]) {
        self.fields = fields
        self.columns = columns
    }

    mutating func next() -> FilledPlace? {
        guard position < columns.count else { return nil }
        let column = columns[position], slot = column.place.slot
        position += 1
        let content = slot < fields.contents.count ? fields.contents[slot] : column.initial
        return FilledPlace(kind: .field, step: .name(column.name), place: column.place, content: content)
    }
}

struct ListCursor: PlaceCursor {
    private var elements: TreeCursor<ListElement>
    private let place: Place
    private var index = 0

    init(_ list: ContentList, _ place: Place) throws(ApplyError) {
        elements = try TreeCursor(list)
        self.place = place
    }

    mutating func next() throws(ApplyError) -> FilledPlace? {
        guard let element = try elements.next() else { return nil }
        defer { index += 1 }
        return FilledPlace(kind: .element(index: index), step: .index(index), place: place, content: element.content)
    }
}

/// The entries of a dictionary in the order of their keys' bytes.
struct DictionaryCursor: PlaceCursor {
    private var entries: TreeCursor<DictionaryEntry>
    private let place: Place

    init(_ entries: ContentDictionary, _ place: Place) throws(ApplyError) {
        self.entries = try TreeCursor(entries)
        self.place = place
    }

    mutating func next() throws(ApplyError) -> FilledPlace? {
        guard let entry = try entries.next() else { return nil }
        return FilledPlace(kind: .entry, step: .name(entry.key), place: place, content: entry.content)
    }
}

/// The elements of a set in the order of their values, but links by the names of their classes: in a set they stand in
/// the order in which their classes were added, which tells of the history.
struct SetCursor: PlaceCursor {
    private let set: ContentSet
    private let place: Place
    private var elements: TreeCursor<SetElement>
    /// The number of elements that come before the next range.
    private var remaining = 0
    /// The indices of the elements that come later, the last of them first.
    private var ranges: [Range<Int>]

    init(_ set: ContentSet, _ place: Place, _ schema: Schema) throws(ApplyError) {
        self.set = set
        self.place = place
        elements = try TreeCursor(ContentSet())
        ranges = place.isMixed ? try Self.ranges(of: set, schema).reversed() : [0..<set.count]
    }

    mutating func next() throws(ApplyError) -> FilledPlace? {
        while remaining == 0 {
            guard let range = ranges.popLast() else { return nil }
            elements = try TreeCursor(set, from: range.lowerBound)
            remaining = range.count
        }
        remaining -= 1
        guard let element = try elements.next() else { return nil }
        return FilledPlace(kind: .setElement, step: nil, place: place, content: element.content)
    }

    /// The elements that are not links, then the links to one class after another.
    private static func ranges(of set: ContentSet, _ schema: Schema) throws(ApplyError) -> [Range<Int>] {
        var links: [(className: [UInt8], range: Range<Int>)] = []
        let firstLink = try set.find(.link(.first(of: ClassID(0)))).index
        var index = firstLink
        while index < set.count, case .link(let object) = try set[index].content {
            let next = ClassID(object.classID.rawValue + 1)
            let end = try set.find(.link(.first(of: next))).index
            guard end > index else { throw .damaged("a set is not in order") }
            links.append((schema[object.classID].name, index..<end))
            index = end
        }
        links.sort { $0.className.compare($1.className) < 0 }
        return [0..<firstLink] + links.map(\.range)
    }
}

extension ObjectReference {
    /// The lower bound of the references to a class: no object of the class comes before it.
    fileprivate static func first(of classID: ClassID) -> ObjectReference {
        ObjectReference(classID: classID, key: .null)
    }
}
