import AnabranchCore
import Foundation

/// The users of an app as a client keeps them from one run of the program to the next.
struct StoredUsers: Codable, Equatable, Sendable {
    struct StoredUser: Codable, Equatable, Sendable {
        var id: String
        var provider: String
        var deviceID: String
        /// Nil unless the user is logged in.
        var accessToken: String?
        var refreshToken: String?
        var identities: [StoredIdentity] = []
        /// A JSON object.
        var profile = "{}"
        var customData: String?

        var user: AppUser {
            AppUser(
                id: id, isLoggedIn: refreshToken != nil, provider: provider,
                identities: identities.map { AppUser.Identity(id: $0.id, provider: $0.provider) }, profile: profile,
                customData: customData, deviceID: deviceID)
        }

        mutating func logOut() { (accessToken, refreshToken) = (nil, nil) }
    }

    struct StoredIdentity: Codable, Equatable, Sendable {
        var id: String
        var provider: String
    }

    /// The version of the text's format.
    static let format = 1

    var format = StoredUsers.format
    /// The one that logged in last, or was switched to; nil if it logged out.
    var current: String?
    /// In the order of their first log-ins.
    var users: [StoredUser] = []

    func index(of id: String) -> Int? { users.firstIndex { $0.id.hasBytes(of: id) } }

    /// Adds a user, or replaces the one with that id.
    mutating func put(_ user: StoredUser) {
        if let index = index(of: user.id) { users[index] = user } else { users.append(user) }
    }

    /// Logs a user out. Nobody can log in as an anonymous user again, so nothing is kept of one.
    mutating func logOut(_ id: String) {
        guard let index = index(of: id) else { return }
        users[index].logOut()
        if users[index].user.isAnonymous { users.remove(at: index) }
        if current.hasBytes(of: id) { current = nil }
    }

    mutating func remove(_ id: String) {
        users.removeAll { $0.id.hasBytes(of: id) }
        if current.hasBytes(of: id) { current = nil }
    }

    // MARK: The text

    var text: String {
        get throws {
            let encoder = JSONEncoder()
            encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
            return String(decoding: try encoder.encode(self), as: UTF8.self)
        }
    }

    init() {}

    /// - Throws: `AppError` if the text is not one of this format.
    init(_ text: String) throws(AppError) {
        guard let read = try? JSONDecoder().decode(StoredUsers.self, from: Data(text.utf8)),
            read.format == Self.format
        else { throw AppError(.storeFailed, "what is kept of the users is damaged, or of another version") }
        self = read
    }
}
