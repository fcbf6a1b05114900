import AnabranchCore
import AnabranchServer

/// One bucket on one connection.
final class Channel {
    /// An error that waits until the client has got all that the server knew when it decided.
    struct HeldError {
        let key: String
        let request: String
        let code: Int
        /// The client gets everything through this entry first.
        let version: ServerVersion
        /// The client gets this change first.
        let duplicateOf: ChangePlace?
    }

    let name: ChannelName
    /// Tells channels of the same number apart.
    let serial: Int
    let bucketName: String
    /// `clientid`
    let client: String
    let library: ClientLibrary
    /// The library as the client names it, and its version.
    let libraryName: String?
    /// True if the client knows a login that has ended as the word `expired` only.
    let isOld: Bool
    let principal: Principal
    let file: SyncedBuckets
    let settings: BucketSettings

    /// The questions of the operator that the client was asked so far.
    var asked: ClientQuestions.Asked
    var bucket: Bucket?
    /// The place up to which changes were sent to the client; nil if it has not begun to listen.
    var position: ChangePlace?
    /// The number of the history that the position is of.
    var salt: UInt64 = 0
    /// True while the client will ask for the changes since its listing.
    var awaitsCV = false
    var heldErrors: [HeldError] = []
    /// The client's own changes that were sent before their turn.
    var toldEarly: Set<ChangePlace> = []
    /// Of each entity, the last of the client's own changes that a browser was told.
    private var toldOwn: [ExactString: ChangePlace] = [:]
    /// The requests that are not answered yet, with their entities.
    var unanswered: [ExactString: ExactString] = [:]
    /// The entities of which the client's working copy may differ, and when it was heard of them last.
    var leftBehind: [ExactString: ContinuousClock.Instant] = [:]
    /// A lower bound of the times of those; nil if there are none.
    private(set) var firstLeftBehind: ContinuousClock.Instant?
    /// The entities whose copies were put right, and when, in seconds since 1970: an edit may have crossed with that.
    var putRight: [ExactString: UInt64] = [:]
    /// After `cv:?`: the entities that the client has changed since; nil otherwise.
    var changedSinceUnknown: Set<ExactString>?

    init(
        _ name: ChannelName, serial: Int, _ request: OpeningRequest, _ principal: Principal, _ file: SyncedBuckets,
        _ settings: BucketSettings
    ) {
        self.name = name
        self.serial = serial
        bucketName = request.bucket
        client = request.client
        library = request.library
        libraryName = request.libraryName
        isOld = request.isOld
        self.principal = principal
        self.file = file
        self.settings = settings
        asked = ClientQuestions.Asked(indexes: file.questions.asked.indexes)
    }

    /// How many entities, or changes, a channel remembers of each kind. There are more only if a client never requests
    /// what it has missed.
    static let notesMax = 10_000

    /// Records that one of the client's own changes was sent before its turn.
    func markEarly(_ place: ChangePlace) { if toldEarly.count < Self.notesMax { toldEarly.insert(place) } }

    /// Records that changes were sent to a browser.
    func markTold(_ changes: [Change]) {
        for change in changes where change.client == client {
            let key = ExactString(change.key)
            if toldOwn[key] != nil || toldOwn.count < Self.notesMax { toldOwn[key] = change.place }
        }
    }

    /// True if a browser, which was sent everything through a change of its own, was not told that: it has it from a
    /// listing, and still waits.
    func waits(for place: ChangePlace, of key: String) -> Bool {
        library == .browser && toldOwn.count < Self.notesMax && toldOwn[ExactString(key)] ?? .start < place
    }

    /// The client's working copy of an entity may differ from what it knows of the server.
    func leaveBehind(_ key: ExactString) {
        guard settings.healsNode, leftBehind.count < Self.notesMax else { return }
        let now = ContinuousClock.now
        leftBehind[key] = now
        firstLeftBehind = firstLeftBehind ?? now
        file.withClients { $0.leaveBehind(key, client, bucketName, at: file.now) }
    }

    func findFirstLeftBehind() { firstLeftBehind = leftBehind.values.min() }

    /// True while pushes go out.
    var isListening: Bool { position != nil && !awaitsCV }

    func message(_ command: String, _ payload: String) -> String { "\(name.prefix)\(command):\(payload)" }

    /// An error as an answer to a change.
    /// - Parameter reason: nil on sockets.
    static func error(
        _ code: Int, _ key: String, _ request: String, client: String, reason: String? = nil
    ) -> String {
        "{\"clientid\":\(JSONValue.string(client).encoded),\"id\":\(JSONValue.string(key).encoded)"
            + ",\"error\":\(code),\"ccids\":[\(JSONValue.string(request).encoded)]"
            + (reason.map { ",\"reason\":\(JSONValue.string($0).encoded)}" } ?? "}")
    }
}
