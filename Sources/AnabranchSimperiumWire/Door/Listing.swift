import AnabranchCore
import AnabranchHistory
import AnabranchSimperium

/// The place of a page in the listing of a bucket, as clients give it back (`Spec/Simperium.md`, section 8).
struct ListingMark: Equatable {
    /// The listing is that of the bucket as it was here.
    var snapshot: ChangePlace
    /// The last entity that was listed.
    var place: ChangePlace
    /// When the listing began, in seconds since 1970.
    var startedAt: UInt64
    var bucket: UInt32
    var salt: UInt64

    var text: String {
        var writer = RecordWriter()
        writer.append(snapshot)
        writer.append(place)
        writer.append(startedAt)
        writer.append(bucket)
        writer.append(salt)
        return Hex.encode(writer.bytes)
    }

    init(snapshot: ChangePlace, place: ChangePlace, startedAt: UInt64, bucket: UInt32, salt: UInt64) {
        self.snapshot = snapshot
        self.place = place
        self.startedAt = startedAt
        self.bucket = bucket
        self.salt = salt
    }

    /// - Returns: nil if it is not a mark.
    init?(_ text: String) {
        guard text.utf8.count == 88, let bytes = Hex.decode(text) else { return nil }
        var reader = RecordReader(bytes)
        guard let snapshot = try? reader.place(), let place = try? reader.place(),
            let startedAt: UInt64 = try? reader.number(), let bucket: UInt32 = try? reader.number(),
            let salt: UInt64 = try? reader.number()
        else { return nil }
        self.init(snapshot: snapshot, place: place, startedAt: startedAt, bucket: bucket, salt: salt)
    }
}

/// A request for a page of the listing of a bucket.
struct ListingRequest: Equatable {
    var hasData = false
    var mark = ""
    var offset = 0
    var limit = 100
    /// The change version after which listed entities have changed. All are listed if it is empty or not known.
    var since = ""

    /// The most entities of a page.
    static let limitMax = 1_000

    /// Reads `data:mark:offset:limit`; trailing fields may be missing.
    init(_ text: Substring) {
        let fields = text.split(separator: ":", omittingEmptySubsequences: false)
        func field(_ index: Int) -> Substring { index < fields.count ? fields[index] : "" }
        hasData = field(0) == "1"
        mark = String(field(1))
        offset = max(0, Int(field(2)) ?? 0)
        limit = Self.limit(field(3))
    }

    /// Reads the query of a URL.
    init(_ query: FormFields) {
        hasData = query.isSet("data")
        mark = query["mark"] ?? ""
        limit = Self.limit(query["limit"] ?? "")
        since = query["since"] ?? ""
    }

    private static func limit(_ text: some StringProtocol) -> Int { min(max(1, Int(text) ?? 100), limitMax) }
}

/// One page of a listing.
struct ListingPage {
    /// The JSON of the answer.
    var text: String
    /// The point as of which the bucket is listed.
    var snapshot: ChangePlace
    /// True if no other page follows.
    var isLast: Bool
    /// How many entities were passed over that had changed since, beside those of the offset.
    var passedCount: Int
}

/// The head of a file, as channels read it.
struct BucketReader {
    /// The longest messages, in bytes, prefix and envelope included.
    static let messageBytesMax = 1 << 20

    let graph: ObjectGraph
    let records: PendingRecords
    let door: DoorRow
    let settings: DoorSettings
    let now: UInt64

    /// A page of a listing. A mark that is unreadable, of another bucket or history, or of a listing that has gone on
    /// for too long while the bucket changed, gives the first page of a new one.
    /// - Parameter bucket: nil if nothing has been written to it.
    func page(_ request: ListingRequest, of bucket: Bucket?, named name: String) throws -> ListingPage {
        guard let bucket else { return answer([], of: name, snapshot: door.end, mark: nil) }
        let mark = try ListingMark(request.mark).flatMap { try isValid($0, in: bucket) ? $0 : nil }
        let snapshot = mark?.snapshot ?? door.end, startedAt = mark?.startedAt ?? now
        let since = door.place(of: request.since, in: name) ?? .start
        var place = min(mark?.place ?? .end(of: door.position), snapshot), skipped = 0, passed = 0
        var entries: [String] = [], bytes = 400
        while true {
            let countMax = max(request.limit, min(request.offset - skipped, ListingRequest.limitMax))
            let rows = try records.recent(of: bucket, before: place, countMax: countMax + 1)
            for row in rows {
                guard row.place > since else {
                    return answer(entries, of: name, snapshot: snapshot, mark: nil, passed: passed)
                }
                guard row.supersededAt.map({ $0 > snapshot }) ?? true else {
                    passed += 1
                    continue
                }
                if skipped < request.offset {
                    skipped += 1
                    continue
                }
                guard let entry = try entry(row, of: bucket, hasData: request.hasData) else { continue }
                bytes += entry.utf8.count + 1
                if entries.count == request.limit || !entries.isEmpty && bytes > Self.messageBytesMax {
                    let mark = ListingMark(
                        snapshot: snapshot, place: place, startedAt: startedAt, bucket: bucket.number, salt: door.salt)
                    return answer(entries, of: name, snapshot: snapshot, mark: mark, passed: passed)
                }
                entries.append(entry)
                place = row.place
            }
            guard rows.count > countMax, let last = rows.last else {
                return answer(entries, of: name, snapshot: snapshot, mark: nil, passed: passed)
            }
            place = last.place
        }
    }

    /// True if the bucket is still known as it was when the listing began.
    private func isValid(_ mark: ListingMark, in bucket: Bucket) throws -> Bool {
        guard mark.salt == door.salt, mark.bucket == bucket.number, mark.snapshot <= door.end, mark.startedAt <= now
        else { return false }
        if now - mark.startedAt <= settings.listingSeconds { return true }
        return try records.keptChanges(of: bucket).map { $0.last <= mark.snapshot } ?? true
    }

    /// - Parameter name: that of the bucket.
    private func answer(
        _ entries: [String], of name: String, snapshot: ChangePlace, mark: ListingMark?, passed: Int = 0
    ) -> ListingPage {
        let current = door.cv(snapshot, of: name)
        let end = mark.map { ",\"mark\":\"\($0.text)\"" } ?? ""
        return ListingPage(
            text: "{\"current\":\"\(current)\",\"index\":[\(entries.joined(separator: ","))]\(end)}",
            snapshot: snapshot, isLast: mark == nil, passedCount: passed)
    }

    private func entry(_ row: RecentRow, of bucket: Bucket, hasData: Bool) throws -> String? {
        let head = "{\"id\":\(JSONValue.string(row.key).encoded),\"v\":\(row.version)"
        guard hasData else { return head + "}" }
        let isNewest = row.supersededAt == nil
        let body = try isNewest ? graph.entity(row.key, of: bucket) : entity(row.key, of: bucket, at: row.version)
        guard let body else { return nil }
        return head + ",\"d\":\(JSONValue.object(body).encoded)}"
    }

    /// The members of an entity at a version; nil if that is not kept, or it was deleted then.
    func entity(_ key: String, of bucket: Bucket, at version: UInt64) throws -> EntityBody? {
        guard let newest = try records.entity(key, of: bucket) else { return nil }
        let body = newest.isDeleted ? nil : try graph.entity(key, of: bucket)
        return try records.entity(key, in: bucket, at: version, newest, body)
    }
}
