import AnabranchCore

@testable import AnabranchSimperiumWire

/// The events of a world, for the end: that nothing of it is lost, and that enough has happened.
final class WorldLedger {
    /// Something that random worlds have to come to.
    enum Event: String, CaseIterable, Sendable {
        case rebased, recreated, folded, healed, toldEarly, unknownVersion, severalPages, listedBesideChanges
        case notFound, badVersion, repeated, changedNothing, wholeEntity, hiddenVersion, emptied
        case cut, wentBack, crashed, clientRestarted, serverStopped, lostWithServer, keptByServer, doorMissed, forgotten
        case daysPassed, anothersAnswer, resentLarger, writtenByHTTP, refusedByHTTP, writtenByServer
        case realmWrote, realmErased, realmReset, clockAhead, clockBehind
    }

    private(set) var counts: [Event: Int] = [:]
    /// The first thing that is not as it should be.
    private(set) var failure: String?
    /// The bodies that clients were told, by key and version.
    private(set) var bodies: [String: [Int64: EntityBody]] = [:]
    /// The changes that were accepted for requests, by key and `ccid`.
    private(set) var accepted: [Request: ChangePlace] = [:]
    /// Those of them whose changes nobody can be told any more, since the door has missed entries after them.
    private(set) var acceptedBefore: Set<Request> = []
    /// The deletions by which node has answered somebody else's.
    var echoes: Set<Request> = []
    /// True if the server runs all the time, and no time passes: then it accepts none of those.
    var isEternal = false
    /// True if there is one server at a time.
    var isOfOneServer = false

    struct Request: Hashable {
        let key: String
        let ident: String
    }

    func count(_ event: Event) { counts[event, default: 0] += 1 }

    /// Everything that has happened, in its order.
    private(set) var events: [String] = []
    private var forgottenThrough = ChangePlace.start

    func record(event: String) { events.append(event) }

    func fail(_ text: String) { failure = failure ?? text }

    func record(_ body: EntityBody, of key: String, _ version: Int64, from name: String) {
        if let known = bodies[key]?[version], known != body {
            fail("\(name) has \(key).\(version) as \(JSONValue.object(body).encoded), others \(known)")
        }
        bodies[key, default: [:]][version] = body
    }

    func record(_ request: Request, acceptedAt place: ChangePlace) {
        guard place > forgottenThrough else { return }
        if let known = accepted[request], known != place { fail("accepted twice: \(request)") }
        if isEternal, echoes.contains(request) { fail("an echo has deleted: \(request)") }
        accepted[request] = place
    }

    /// The door misses entries.
    func beginHistory() { acceptedBefore.formUnion(accepted.keys) }

    /// So much time has passed that requests are forgotten; the changes that they have made may be told for longer.
    func forgetRequests(through end: ChangePlace) { (accepted, forgottenThrough) = ([:], end) }
}
