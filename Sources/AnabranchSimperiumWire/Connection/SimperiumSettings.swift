import AnabranchCore
package import AnabranchServer

/// The limits of Simperium's wire (`Spec/Simperium.md`, section 9).
package struct SimperiumSettings: Sendable {
    /// The apps that are served, by their ids.
    package var apps: [String: SimperiumApp] = [:]
    package var door = DoorSettings()
    /// How many channels a connection may have open.
    package var channelsMax = 100
    /// How many `init`s a connection may send in a minute.
    package var initsPerMinuteMax = 300
    /// How many messages that cannot be read are passed over before the connection is closed.
    package var unparsableMax = 20
    /// How many changes of a connection may be under way.
    package var changesUnderWayMax = 100
    /// How many changes a connection may send in a minute.
    package var changesPerMinuteMax = 12_000
    /// How many entities the listings of a connection may pass over in a minute. One alone may pass over any number.
    package var skipsPerMinuteMax = 2_000_000
    /// How often it is looked at whether logins have ended, in seconds.
    package var loginCheckSeconds = 60
    /// How long nothing may have been heard of such a copy before.
    package var healDelay = Duration.seconds(3)
    /// How long an HTTP request for changes waits until there are some, in seconds.
    package var newsSeconds = 60
    package var sockets: TextWireSettings = {
        var settings = TextWireSettings()
        settings.spreadsShutdown = true
        return settings
    }()

    package init() {}

    /// The name of the app with an id, whose case does not count; nil if it is not served.
    func appName(_ ident: String) -> String? {
        apps[exactly: ident] != nil ? ident : apps.keys.first { $0.lowercased() == ident.lowercased() }
    }

    /// The app with an id, whose case does not count.
    func app(_ ident: String) -> SimperiumApp? { appName(ident).flatMap { apps[exactly: $0] } }
}

/// Decides whose a token is.
package protocol SimperiumAuthenticator: Sendable {
    /// Decides about a token of an app whose case does not count.
    func admit(token: String, app: String) async -> Admission

    /// Decides about a user for whom an administrator acts, of an app whose case does not count.
    func admit(user: String, app: String) async -> Admission

    /// Which of these logins have ended.
    func ended(among logins: Set<String>) async -> Set<String>
}
