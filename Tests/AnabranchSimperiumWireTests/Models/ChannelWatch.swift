import AnabranchCore

@testable import AnabranchSimperiumWire

/// Looks at everything that a client is told on one connection, in the order in which it comes, for what no client
/// should have to see (`Spec/Simperium.md`, section 8).
struct ChannelWatch {
    private let kind: ModelClient.Kind
    private let client: String
    private let ledger: WorldLedger
    /// Everything through this point was told; nil before a point is known.
    private var position: ChangePlace?
    /// True while pushes may come.
    private var isListening = false
    private var told: Set<ChangePlace> = []
    private var versions: [String: (number: Int64, isDeleted: Bool)] = [:]
    /// The point as of which a listing under way is; nil between listings.
    private var listedAt: String?
    private var listed: Set<String> = []
    /// Errors 409 of which it is not known where the change is that they are about.
    private(set) var unplacedRepetitions: [(request: WorldLedger.Request, position: ChangePlace)] = []

    init(_ kind: ModelClient.Kind, client: String, _ ledger: WorldLedger) {
        self.kind = kind
        self.client = client
        self.ledger = ledger
    }

    private func fail(_ text: String) { ledger.fail("\(client) is told \(text)") }

    // MARK: Requests

    /// The client asks for what has come since a version.
    mutating func asks(since cv: String) {
        position = ChangeVersion(cv)?.place
        isListening = true
        (told, versions) = ([], [:])
    }

    mutating func asksForListing() {
        (position, isListening, listedAt) = (nil, false, nil)
        (versions, listed) = ([:], [])
    }

    /// The server may have forgotten listings that are under way.
    mutating func passOverListing() {
        if listedAt != nil { versions = [:] }
        (listedAt, listed) = (nil, [])
    }

    mutating func takeRepetitions() -> [(request: WorldLedger.Request, position: ChangePlace)] {
        defer { unplacedRepetitions = [] }
        return unplacedRepetitions
    }

    // MARK: Answers

    mutating func takeUnknownVersion() {
        ledger.count(.unknownVersion)
        (position, isListening) = (nil, false)
    }

    mutating func takePage(_ page: JSONValue) {
        guard let current = page["current"]?.string, let place = ChangeVersion(current)?.place else {
            return fail("a page without a version: \(page.encoded)")
        }
        if let listedAt, listedAt != current { fail("pages of two listings") }
        for entry in page["index"]?.array ?? [] {
            guard let key = entry["id"]?.string, let version = entry["v"]?.integer else {
                return fail("an incomplete entry: \(entry.encoded)")
            }
            if !listed.insert(key).inserted { fail("\(key) twice in one listing") }
            versions[key] = (version, false)
        }
        guard page["mark"] == nil else {
            ledger.count(.severalPages)
            return listedAt = current
        }
        (listedAt, listed, position) = (nil, [], place)
        isListening = kind == .node || kind == .android
    }

    /// Takes the changes of one message.
    mutating func take(_ changes: [JSONValue]) {
        var deleted: Set<String> = []
        for change in changes {
            guard let key = change["id"]?.string, let author = change["clientid"]?.string,
                let idents = change["ccids"]?.array?.compactMap(\.string)
            else { return fail("an incomplete change: \(change.encoded)") }
            if let code = change["error"] {
                takeError(code, WorldLedger.Request(key: key, ident: idents.first ?? ""))
                continue
            }
            guard let place = (change["cv"]?.string).flatMap({ ChangeVersion($0) })?.place,
                let version = change["ev"]?.integer
            else { return fail("an incomplete change: \(change.encoded)") }
            if place.ordinal == .max {
                ledger.count(.healed)
                if kind != .node { fail("what only node needs: \(change.encoded)") }
                continue
            }
            for ident in idents { ledger.record(WorldLedger.Request(key: key, ident: ident), acceptedAt: place) }
            // Otherwise node deletes the new entity.
            if kind == .node, change["sv"] == nil, change["o"] == "M", deleted.contains(key) {
                fail("a deletion and a creation that are not one: \(change.encoded)")
            }
            if change["o"] == "-", author != client { deleted.insert(key) }
            take(change, key, version, at: place, isOwn: author == client)
        }
    }

    private mutating func take(
        _ change: JSONValue, _ key: String, _ version: Int64, at place: ChangePlace, isOwn: Bool
    ) {
        if !told.insert(place).inserted { return fail("twice: \(change.encoded)") }
        guard isListening, let position else {
            if kind == .ios, isOwn { return ledger.count(.toldEarly) }
            return fail("before it has asked: \(change.encoded)")
        }
        if place <= position { fail("what it has been told, or out of order: \(change.encoded)") }
        self.position = place
        let source = change["sv"]?.integer, known = versions[key]
        versions[key] = (version, change["o"] == "-")
        if let source {
            if let known, known.number != source || known.isDeleted { fail("a gap: \(change.encoded) after \(known)") }
            if version != source + 1 {
                if kind != .node || version <= source { fail("a leap: \(change.encoded)") }
                ledger.count(.folded)
            }
        } else if let known {
            if !known.isDeleted || version != known.number + 1 { fail("a gap: \(change.encoded) after \(known)") }
            ledger.count(.recreated)
        }
    }

    private mutating func takeError(_ code: JSONValue, _ request: WorldLedger.Request) {
        switch code {
        case 404: ledger.count(.notFound)
        case 405: ledger.count(.badVersion)
        case 412: ledger.count(.changedNothing)
        case 409: ledger.count(.repeated)
        default: fail("error \(code.encoded) for \(request)")
        }
        if !isListening, kind != .ios { fail("error \(code.encoded) before it has asked") }
        guard code == 409 else { return }
        let position = position ?? .start
        guard let place = ledger.accepted[request] else {
            if isListening { unplacedRepetitions.append((request, position)) }
            return
        }
        if place > position, !told.contains(place), !ledger.acceptedBefore.contains(request) {
            fail("of a repetition, not of what: \(request)")
        }
    }
}
