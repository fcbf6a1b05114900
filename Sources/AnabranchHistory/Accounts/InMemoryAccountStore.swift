import AnabranchCore
import Synchronization

/// An account store that ends with the process: for tests, and for servers whose users may register again each time.
public final class InMemoryAccountStore: Sendable {
    /// The name of an identity, compared byte by byte: `String` would compare characters.
    fileprivate struct Name: Hashable {
        let app: [UInt8], provider: [UInt8], name: [UInt8]

        init(_ app: String, _ provider: String, _ name: String) {
            self.app = Array(app.utf8)
            self.provider = Array(provider.utf8)
            self.name = Array(name.utf8)
        }

        private init(_ app: [UInt8], _ provider: [UInt8], _ name: [UInt8]) {
            (self.app, self.provider, self.name) = (app, provider, name)
        }

        /// The form that all names which count as the same have in common.
        var caseless: Name {
            guard provider.elementsEqual(Identity.emailProvider.utf8) else { return self }
            return Name(app, provider, name.map { (0x41...0x5a).contains($0) ? $0 | 0x20 : $0 })
        }
    }

    fileprivate struct State {
        var users: [String: User] = [:]
        var owners: [Name: String] = [:]
        /// All names, by their caseless forms.
        var spellings: [Name: [Name]] = [:]
        var sessions: [String: LoginSession] = [:]
        /// When the first session is over, in seconds since 1970.
        var earliestEnd = UInt64.max
        /// The users who have logged in at least once.
        var loggedIn: Set<String> = []
        var keys: [String: APIKey] = [:]
    }

    private let state = Mutex(State())

    /// A store without users.
    public init() {}

    private func change<Result: Sendable>(
        _ body: (inout State) throws(AccountError) -> Result
    ) throws(AccountError) -> Result {
        try state.withLock { (state: inout State) throws(AccountError) -> Result in try body(&state) }
    }

}

extension InMemoryAccountStore: AccountStore {
    // MARK: Users

    public func add(_ user: User) throws(AccountError) {
        try change { state throws(AccountError) in
            let names = user.identities.map { Name(user.app, $0.provider, $0.name) }
            let isFree = state.users[user.ident] == nil && names.allSatisfy { state.spellings[$0.caseless] == nil }
            guard isFree, Set(names.map(\.caseless)).count == names.count else {
                throw AccountError(.nameTaken, "an identity exists")
            }
            for name in names { state.give(name, to: user.ident) }
            state.users[user.ident] = user
        }
    }

    public func user(_ ident: String) -> User? { state.withLock { $0.users[ident] } }

    public func user(of app: String, provider: String, name: String) -> User? {
        state.withLock { state in
            state.owner(of: Name(app, provider, name)).flatMap { state.users[$0] }
        }
    }

    public func users(after ident: String, countMax: Int) -> [User] {
        users(after: ident, countMax: countMax) { _ in true }
    }

    public func users(of app: String, after ident: String, countMax: Int) -> [User] {
        users(after: ident, countMax: countMax) { $0.app.hasBytes(of: app) }
    }

    private func users(after ident: String, countMax: Int, where isMeant: (User) -> Bool) -> [User] {
        state.withLock { state in
            let found = state.users.values.filter { $0.ident > ident && isMeant($0) }
            return Array(found.sorted { $0.ident < $1.ident }.prefix(max(0, countMax)))
        }
    }

    public func add(_ identity: Identity, to user: String) throws(AccountError) {
        try change { state throws(AccountError) in
            let app = try state.requireUser(user).app
            guard state.spellings[Name(app, identity.provider, identity.name).caseless] == nil else {
                throw AccountError(.nameTaken, "an identity exists")
            }
            try state.add(identity, to: user)
        }
    }

    public func move(_ identity: String, from owner: String, to user: String) throws(AccountError) {
        try change { state throws(AccountError) in
            guard let giver = state.users[owner], state.users[user] != nil,
                let moved = giver.identities.first(where: { $0.ident == identity })
            else { throw AccountError(.noSuchUser, "nothing to move") }
            guard owner != user, giver.identities.count == 1, !state.loggedIn.contains(owner) else {
                throw AccountError(.nameTaken, "the identity is in use")
            }
            state.removeUser(owner)
            try state.add(moved, to: user)
        }
    }

    public func confirm(_ identity: String, of user: String) throws(AccountError) -> Bool {
        try change { state throws(AccountError) in
            guard try state.identity(identity, of: user).isPending else { return false }
            try state.change(identity, of: user) { $0.isPending = false }
            return true
        }
    }

    public func setSecret(_ secret: String, of identity: String, user: String) throws(AccountError) {
        try change { state throws(AccountError) in try state.setSecret(secret, of: identity, user: user) }
    }

    public func setSecret(
        _ secret: String, of identity: String, user: String, replacing old: String?
    ) throws(AccountError) -> Bool {
        try change { state throws(AccountError) in
            guard try state.identity(identity, of: user).secret == old else { return false }
            try state.setSecret(secret, of: identity, user: user)
            return true
        }
    }

    public func setDisabled(_ isDisabled: Bool, user: String) throws(AccountError) {
        try change { state throws(AccountError) in
            try state.requireUser(user)
            state.users[user]?.isDisabled = isDisabled
        }
    }

    public func setCustomData(_ customData: String, user: String) throws(AccountError) {
        try change { state throws(AccountError) in
            try state.requireUser(user)
            state.users[user]?.customData = customData
        }
    }

    public func removeUser(_ ident: String) { state.withLock { $0.removeUser(ident) } }

    // MARK: Sessions

    public func add(_ session: LoginSession, by secret: String?) throws(AccountError) {
        try change { state throws(AccountError) in
            let user = try state.requireUser(session.user)
            guard secret == nil || user.identities.contains(where: { $0.secret == secret }) else {
                throw AccountError(.secretReplaced, "the password was replaced")
            }
            state.forgetSessions(endedBy: session.createdAt)
            state.sessions[session.ident] = session
            state.earliestEnd = min(state.earliestEnd, session.expiresAt)
            state.loggedIn.insert(session.user)
        }
    }

    public func session(_ ident: String) -> (session: LoginSession, user: User)? {
        state.withLock { state in
            guard let session = state.sessions[ident], let user = state.users[session.user] else { return nil }
            return (session, user)
        }
    }

    public func removeSession(_ ident: String) { state.withLock { $0.sessions[ident] = nil } }

    public func removeSessions(of user: String) {
        state.withLock { $0.removeSessions(of: user) }
    }

    // MARK: Keys

    public func add(_ key: APIKey, countMax: Int) throws(AccountError) {
        try change { state throws(AccountError) in
            try state.requireUser(key.user)
            guard state.keys.values.count(where: { $0.user == key.user }) < countMax else {
                throw AccountError(.tooManyKeys, "the user has \(countMax) keys")
            }
            let isTaken = state.keys.values.contains { other in
                other.digest == key.digest || other.user == key.user && other.name.utf8.elementsEqual(key.name.utf8)
            }
            if isTaken { throw AccountError(.nameTaken, "a key of that name exists") }
            state.keys[key.ident] = key
        }
    }

    public func apiKeys(of user: String) -> [APIKey] {
        state.withLock { $0.keys.values.filter { $0.user == user }.sorted { $0.ident < $1.ident } }
    }

    public func apiKey(digest: [UInt8]) -> APIKey? {
        state.withLock { $0.keys.values.first { $0.digest == digest } }
    }

    public func setDisabled(_ isDisabled: Bool, apiKey ident: String, of user: String) -> Bool {
        state.withLock { state in
            guard state.keys[ident]?.user == user else { return false }
            state.keys[ident]?.isDisabled = isDisabled
            return true
        }
    }

    public func removeAPIKey(_ ident: String, of user: String) -> Bool {
        state.withLock { state in
            guard state.keys[ident]?.user == user else { return false }
            state.keys[ident] = nil
            return true
        }
    }
}

extension InMemoryAccountStore.State {
    @discardableResult
    func requireUser(_ ident: String) throws(AccountError) -> User {
        guard let user = users[ident] else { throw AccountError(.noSuchUser, "no such user") }
        return user
    }

    mutating func give(_ name: InMemoryAccountStore.Name, to user: String) {
        owners[name] = user
        spellings[name.caseless, default: []].append(name)
    }

    func owner(of name: InMemoryAccountStore.Name) -> String? {
        if let owner = owners[name] { return owner }
        guard let same = spellings[name.caseless], same.count == 1 else { return nil }
        return owners[same[0]]
    }

    /// Adds an identity whose name nobody has in this spelling.
    mutating func add(_ identity: Identity, to ident: String) throws(AccountError) {
        let user = try requireUser(ident)
        let name = InMemoryAccountStore.Name(user.app, identity.provider, identity.name)
        if owners[name] != nil { throw AccountError(.nameTaken, "an identity exists") }
        give(name, to: ident)
        users[ident]?.identities.append(identity)
    }

    func identity(_ ident: String, of user: String) throws(AccountError) -> Identity {
        guard let identity = users[user]?.identities.first(where: { $0.ident == ident }) else {
            throw AccountError(.noSuchUser, "no such identity")
        }
        return identity
    }

    mutating func setSecret(_ secret: String, of identity: String, user: String) throws(AccountError) {
        try change(identity, of: user) { identity in
            identity.secret = secret
            identity.isPending = false
        }
        removeSessions(of: user)
    }

    mutating func change(
        _ identity: String, of user: String, _ body: (inout Identity) -> Void
    ) throws(AccountError) {
        guard var changed = users[user], let index = changed.identities.firstIndex(where: { $0.ident == identity })
        else { throw AccountError(.noSuchUser, "no such identity") }
        body(&changed.identities[index])
        users[user] = changed
    }

    mutating func forgetSessions(endedBy time: UInt64) {
        guard earliestEnd <= time else { return }
        sessions = sessions.filter { $0.value.expiresAt > time }
        earliestEnd = sessions.values.map(\.expiresAt).min() ?? .max
    }

    mutating func removeSessions(of user: String) { sessions = sessions.filter { $0.value.user != user } }

    mutating func removeUser(_ ident: String) {
        users[ident] = nil
        owners = owners.filter { $0.value != ident }
        spellings = Dictionary(grouping: owners.keys, by: \.caseless)
        removeSessions(of: ident)
        keys = keys.filter { $0.value.user != ident }
        loggedIn.remove(ident)
    }
}
