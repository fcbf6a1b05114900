import AnabranchCore

/// The sets of queries of the connected clients' views: they are in memory, so they have bounds, for each user and for
/// all of them together. Many clients of a user ask for the same, which counts once.
struct UserSets {
    /// The largest size of all sets together, in bytes.
    static let bytesMax = 32 << 20
    /// The divisor of what the others leave that gives the share of one user.
    private static let userPart = 8

    private var users: [ClientFileID: ExactString] = [:]
    private var predicates: [ClientFileID: Predicates] = [:]
    /// By user, the number of views that have a set.
    private var counts: [ExactString: [Predicates: Int]] = [:]
    /// By user, the size of the different sets, in bytes; and that of all of them.
    private var byteCounts: [ExactString: Int] = [:]
    private var byteCount = 0

    /// - Parameter user: nil if the server does not know who it is; nothing is counted then.
    mutating func insert(_ ident: ClientFileID, of user: String?) {
        if let user, users[ident] == nil { users[ident] = ExactString(user) }
    }

    mutating func record(_ ident: ClientFileID, _ set: Predicates) {
        guard let user = users[ident], predicates[ident] != set else { return }
        removeSet(of: ident, user)
        predicates[ident] = set
        if counts[user]?[set] == nil { count(set.byteCount, user) }
        counts[user, default: [:]][set, default: 0] += 1
    }

    mutating func remove(_ ident: ClientFileID) {
        guard let user = users.removeValue(forKey: ident) else { return }
        removeSet(of: ident, user)
    }

    private mutating func removeSet(of ident: ClientFileID, _ user: ExactString) {
        guard let set = predicates.removeValue(forKey: ident), let number = counts[user]?[set] else { return }
        counts[user]?[set] = number > 1 ? number - 1 : nil
        if number == 1 { count(-set.byteCount, user) }
        if counts[user]?.isEmpty == true { (counts[user], byteCounts[user]) = (nil, nil) }
    }

    private mutating func count(_ bytes: Int, _ user: ExactString) {
        byteCounts[user, default: 0] += bytes
        byteCount += bytes
    }

    /// True if a view may have a set.
    /// - Parameter userBytesMax: the largest size of the different sets of one user together, in bytes.
    func hasRoom(for set: Predicates, of ident: ClientFileID, userBytesMax: Int) -> Bool {
        guard let user = users[ident], counts[user]?[set] == nil else { return true }
        let old = predicates[ident].map { counts[user]?[$0] == 1 ? $0.byteCount : 0 } ?? 0
        let mine = byteCounts[user] ?? 0, others = byteCount - mine
        return mine - old + set.byteCount <= min(userBytesMax, (Self.bytesMax - others) / Self.userPart)
    }
}
