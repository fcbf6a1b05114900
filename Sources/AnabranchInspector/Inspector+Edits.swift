import AnabranchCore
import AnabranchExplain
import AnabranchHistory

/// The history as the edits that people recognise (`Spec/Explain.md`, section 7).
extension Inspector {
    /// The most edits in one answer.
    static let editsMax = 500
    /// The most versions that are read for an answer.
    static let groupedVersionsMax = 20_000
    /// The most objects of an edit, and the most fields of an object, that an answer names.
    private static let namedMax = 20

    /// The newest edits, or those of the versions up to `before`.
    func edits(_ query: PageQuery) async throws(PageError) -> String {
        let limit = try query.number("limit", usual: 50, 1...UInt64(Self.editsMax))
        let pause = try query.number("pause", usual: EditGroups.pauseMilliseconds / 1_000, 1...604_800)
        let before = try query.version("before")
        return try await reads.read(try query.path(), isLong: true) { view in
            let last = min(before ?? view.head.version, view.head.version), base = view.head.baseVersion
            var groups = EditGroups(pauseMilliseconds: pause * 1_000), found: [Edit] = []
            var version = last, bytes = 0, count = 0
            while version > base, UInt64(found.count) < limit, bytes < Self.summarisedBytesMax,
                count < Self.groupedVersionsMax, let entry = try view.view.entry(version)
            {
                bytes += entry.changeset.count
                count += 1
                found += try groups.add(entry)
                version = version - 1
            }
            // Where the search has ended early, those that it was in the middle of may have begun before.
            if UInt64(found.count) < limit { found += groups.finish() }
            let edits = found.prefix(Int(limit))
            let isCut = version > base && UInt64(found.count) < limit
            let users = try Set(edits.map(\.author)).sorted().map { client in
                jsonObject([
                    "client": "\(client)",
                    "user": jsonText(client == 0 ? nil : try view.view.clientFile(client)?.user),
                ])
            }
            return jsonObject([
                "path": jsonText(view.path.description), "version": "\(view.head.version)", "base_version": "\(base)",
                "edits": jsonArray(edits.map { $0.json(namedMax: Self.namedMax) }), "users": jsonArray(users),
                "more": "\(version > base || found.count > edits.count)", "cut_at": isCut ? "\(version)" : "null",
            ])
        }
    }
}

extension Edit {
    fileprivate func json(namedMax: Int) -> String {
        jsonObject([
            "first": "\(versions.lowerBound)", "last": "\(versions.upperBound)", "versions": "\(versionCount)",
            "client": "\(author)", "first_timestamp": "\(Self.shown(times.lowerBound))",
            "last_timestamp": "\(Self.shown(times.upperBound))", "changes_schema": "\(changesSchema)",
            "object_count": "\(objects.count)",
            "objects": jsonArray(
                objects.prefix(namedMax).map { object in
                    jsonObject([
                        "class": jsonText(object.object.className), "key": object.object.key.json,
                        "inserted": "\(object.isInserted)", "deleted": "\(object.isDeleted)",
                        "field_count": "\(object.fields.count)",
                        "fields": jsonArray(object.fields.prefix(namedMax).map { jsonText($0) }),
                    ])
                }),
        ])
    }

    /// A time that JSON readers can take for a number.
    private static func shown(_ time: ChangesetTime) -> UInt64 { min(time.rawValue, UInt64(Int64.max)) }
}
