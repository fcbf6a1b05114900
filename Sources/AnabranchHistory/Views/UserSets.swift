import AnabranchCore

/// What the views of each user ask for: all of it is in memory while the file is open, so it has a bound. Many clients
/// of a user ask for the same, which counts once.
struct UserSets {
    private var users: [ClientFileID: String] = [:]
    private var predicates: [ClientFileID: [String: String]] = [:]
    /// By user, how many views have a set.
    private var counts: [String: [[String: String]: Int]] = [:]

    /// - Parameter user: nil if the server does not know who it is; nothing is counted then.
    mutating func insert(_ ident: ClientFileID, of user: String?) {
        if let user, users[ident] == nil { users[ident] = user }
    }

    mutating func note(_ ident: ClientFileID, _ set: [String: String]) {
        guard let user = users[ident], predicates[ident] != set else { return }
        removeSet(of: ident, user)
        predicates[ident] = set
        counts[user, default: [:]][set, default: 0] += 1
    }

    mutating func remove(_ ident: ClientFileID) {
        guard let user = users.removeValue(forKey: ident) else { return }
        removeSet(of: ident, user)
    }

    private mutating func removeSet(of ident: ClientFileID, _ user: String) {
        guard let set = predicates.removeValue(forKey: ident), let count = counts[user]?[set] else { return }
        counts[user]?[set] = count > 1 ? count - 1 : nil
        if counts[user]?.isEmpty == true { counts[user] = nil }
    }

    /// How many bytes the different sets of a view's user have, if the view has this one.
    func byteCount(with set: [String: String], of ident: ClientFileID) -> Int {
        guard let user = users[ident] else { return 0 }
        var sets = counts[user] ?? [:]
        if let old = predicates[ident], let count = sets[old] { sets[old] = count > 1 ? count - 1 : nil }
        sets[set] = 1
        return sets.keys.reduce(0) { $0 + $1.reduce(0) { $0 + $1.key.utf8.count + $1.value.utf8.count } }
    }
}
