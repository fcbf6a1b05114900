import AnabranchCore
import AnabranchExplain
import AnabranchHistory
import AnabranchQuery
import AnabranchServer
import NIOHTTP1

/// Objects: those of a class as a table, and a single one with its properties and backlinks.
extension Inspector {
    /// The most rows in one answer.
    static let rowsMax = 500

    /// Some rows of a table: at least one, and fewer than requested where the answer would be too long.
    func objects(_ query: PageQuery) async throws(PageError) -> String {
        let path = try query.path(), at = try query.version("at"), className = try query.text("class")
        let offset = Int(try query.number("offset", usual: 0, 0...UInt64(ObjectList.countMax)))
        let limit = Int(try query.number("limit", usual: 100, 1...UInt64(Self.rowsMax)))
        let begun = try query.version("list"), lists = lists
        let viewer = try await viewer(query)
        let (filter, sort, isDescending) = (query["filter"], query["sort"], query["order"] == "desc")
        return try await reads.read(path, at: at) { view in
            let schema = try view.schema(className)
            let question = ObjectList.Question(
                file: view.id, className: ExactString(className), filter: filter.map { ExactString($0) },
                sort: sort.map { ExactString($0) }, isDescending: isDescending, at: at, seen: viewer.seen)
            let list = lists.list(question, begunAt: begun, now: view.version)
            let piece = try list.piece(from: offset, countMax: limit, in: view)
            let texts = ValueTexts(of: view.state)
            var rows: [String] = [], cell = ValueText.cell
            for key in piece.keys where cell.bytesLeft > 0 {
                let values = try view.object(schema, key).map { object in
                    jsonArray(schema.properties.map { cell.json(of: object.value(of: $0), texts, depth: 1) })
                }
                rows.append(jsonObject(["key": key.json, "values": values ?? "null"]))
            }
            return jsonObject([
                "path": jsonText(view.path.description), "version": "\(view.version)", "list": "\(list.version)",
                "class": schema.json(in: view.state), "offset": "\(offset)", "count": "\(piece.count)",
                "looked": "\(piece.lookedCount)", "complete": "\(piece.isComplete)", "cut": "\(piece.isCut)",
                "rows": jsonArray(rows),
            ])
        }
    }

    /// One object with all that it holds.
    func object(_ query: PageQuery) async throws(PageError) -> String {
        let className = try query.text("class"), key = try query.key()
        let viewer = try await viewer(query)
        return try await reads.read(try query.path(), at: try query.version("at")) { view in
            let schema = try view.schema(className), texts = ValueTexts(of: view.state)
            let found = try view.object(schema, key), seen = viewer.seen.objects(in: view.state)
            let object = try found.flatMap { try seen.include($0, of: schema.name, in: view.state) ? $0 : nil }
            var text = ValueText.whole
            let embedded = view.state.classes.filter { $0.kind == .embedded }
            return jsonObject([
                "path": jsonText(view.path.description), "version": "\(view.version)", "key": key.json,
                "class": schema.json(in: view.state),
                "embedded": jsonArray(embedded.map { $0.json(in: view.state) }),
                "fields": object.map { text.json(of: $0, texts) } ?? "null",
                "hidden": "\(found != nil && object == nil)",
            ])
        }
    }

    /// The most links to an object that are shown.
    static let linksMax = 200
    /// How long is looked for them, in milliseconds.
    static let linksMilliseconds = 250

    /// The objects that link to one.
    func links(_ query: PageQuery) async throws(PageError) -> String {
        let className = try query.text("class"), key = try query.key()
        let viewer = try await viewer(query)
        return try await reads.read(try query.path(), at: try query.version("at")) { view in
            let target = ObjectReference(classID: try view.schema(className).number, key: key)
            var search = LinkSearch(to: target, from: viewer.seen.objects(in: view.state))
            let isComplete = try search.look(
                in: view.state, until: .now + .milliseconds(Self.linksMilliseconds), countMax: Self.linksMax)
            return jsonObject([
                "version": "\(view.version)", "complete": "\(isComplete)", "looked": "\(search.lookedCount)",
                "links": jsonArray(
                    search.found.map { link in
                        jsonObject([
                            "class": jsonText(link.className), "key": link.key.json, "field": jsonText(link.field),
                        ])
                    }),
            ])
        }
    }

    /// The most versions that are read to find out who wrote an object.
    static let blamedVersionsMax = 10_000

    /// The writers of an object's values, and the versions that changed it.
    func blame(_ query: PageQuery) async throws(PageError) -> String {
        let className = try query.text("class"), key = try query.key()
        return try await reads.read(try query.path(), isLong: true) { view in
            let address = ObjectAddress(className.utf8, key)
            let range = VersionRange(after: view.head.baseVersion, through: view.head.version)
            let written =
                range.isEmpty
                ? []
                : try view.view.versions(
                    writing: [ConflictKeys.object(address)], in: range, excludingOrigin: .largest)
            guard written.count <= Self.blamedVersionsMax else {
                throw PageError(
                    .conflict, "TooLarge",
                    "\(written.count) versions have changed the object: anabranch blame and anabranch log print them")
            }
            let versions = try view.view.versions(changing: address)
            var changes: [String] = [], bytes = 0
            for version in versions.suffix(Self.rowsMax).reversed() where bytes < Self.summarisedBytesMax {
                guard let entry = try view.view.entry(version) else { continue }
                bytes += entry.changeset.count
                changes.append(try view.summary(of: entry, about: address))
            }
            return jsonObject([
                "version": "\(view.version)", "blame": try view.view.blame(address, in: view.state)?.json ?? "null",
                "count": "\(versions.count)", "changes": jsonArray(changes),
            ])
        }
    }
}

/// The search for the objects that link to one: all objects of the classes that can.
struct LinkSearch {
    struct Link {
        var className: [UInt8]
        var key: PrimaryKey
        var field: [UInt8]
    }

    private let target: ObjectReference
    private let seen: SeenObjects
    private(set) var found: [Link] = []
    private(set) var lookedCount = 0

    /// - Parameter seen: the objects among which it looks.
    init(to target: ObjectReference, from seen: SeenObjects) { (self.target, self.seen) = (target, seen) }

    /// - Returns: false if not all was looked at.
    mutating func look(in state: ObjectGraph, until end: ContinuousClock.Instant, countMax: Int) throws -> Bool {
        for schema in state.classes where schema.kind == .topLevel {
            let properties = schema.properties.filter { $0.type == .link || $0.type == .null }
            guard !properties.isEmpty else { continue }
            var isOver = false, failure: (any Error)?
            try state.forEachObject(of: schema.number, after: nil) { object throws(ApplyError) in
                lookedCount += 1
                do {
                    for property in properties where holdsLink(object.value(of: property), in: state) {
                        guard let key = object.key, try seen.include(object, of: schema.name, in: state) else { break }
                        found.append(Link(className: schema.name, key: key, field: property.name))
                    }
                } catch { failure = error }
                isOver = failure != nil || found.count >= countMax
                if lookedCount & 63 == 0, !isOver { isOver = ContinuousClock.now >= end }
                return !isOver
            }
            if let failure { throw failure }
            if isOver { return false }
        }
        return true
    }

    private func holdsLink(_ value: StateValue, in state: ObjectGraph) -> Bool {
        switch value {
        case .link(let object): object == target
        case .list(let list): list.values.contains { holdsLink($0, in: state) }
        case .set(let set): set.values.contains { holdsLink($0, in: state) }
        case .dictionary(let dictionary): dictionary.values.contains { holdsLink($0, in: state) }
        case .object(let object):
            state.schema(of: object.classID)?.properties.contains { holdsLink(object.value(of: $0), in: state) }
                ?? false
        default: false
        }
    }
}
