import AnabranchCore
package import AnabranchHistory
import AnabranchOverTheAir
package import AnabranchServer
package import Logging
import Synchronization

/// The property-list wire: the sessions of devices, and their door (`Spec/OverTheAirServer.md`).
package final class OverTheAirWire: RecordDoor {
    private struct State {
        weak var server: SyncServer?
        var sessions: [String: OpenSession] = [:]
        /// The cookies of sessions by app, user and device.
        var cookies: [[ExactString]: String] = [:]
        var sweptAt: UInt64 = 0
    }

    let settings: OverTheAirSettings
    let services: AppServices
    let authorizer: any Authorizer
    let logger: Logger
    let unixSeconds: @Sendable () -> UInt64
    private let preciseSeconds: @Sendable () -> Double
    private let state = Mutex(State())

    /// - Parameters:
    ///   - unixSeconds: the clock, in seconds since 1970.
    ///   - preciseSeconds: the same with their fractions, for the times of writes.
    package init(
        settings: OverTheAirSettings, services: AppServices, authorizer: any Authorizer, logger: Logger,
        unixSeconds: @escaping @Sendable () -> UInt64, preciseSeconds: @escaping @Sendable () -> Double
    ) {
        self.settings = settings
        self.services = services
        self.authorizer = authorizer
        self.logger = logger
        self.unixSeconds = unixSeconds
        self.preciseSeconds = preciseSeconds
    }

    /// The time of a write: an edit that a Realm client has made before, and brings later, does not win over it.
    var writeTime: ChangesetTime { ChangesetTime(secondsSince1970: preciseSeconds()) }

    /// Serves the files of a server. To be called before it runs.
    package func attach(to server: SyncServer) {
        state.withLock { $0.server = server }
        server.attach(self)
    }

    /// The routes of all apps.
    package var routes: [HTTPRoute] {
        settings.apps.sorted { $0.key < $1.key }.map { app, settings in
            HTTPRoute(
                settings.url, to: OverTheAirEndpoints(self, app: app, settings),
                body: .whole(bytesMax: self.settings.messageBytesMax))
        }
    }

    func server() throws -> SyncServer {
        guard let server = state.withLock({ $0.server }) else {
            throw HistoryError(.storeFailed, "there is no server")
        }
        return server
    }

    // MARK: The door

    package func observer(of path: VirtualPath) -> (any RecordObserver)? {
        let app = String(decoding: path.bytes.prefix { $0 != UInt8(ascii: "/") }, as: UTF8.self)
        guard let devices = settings.apps[exactly: app],
            path.partition?.starts(with: "\"\(devices.folder)/".utf8) == true
        else { return nil }
        return DataclassObserver(dataclasses: devices.dataclasses, limits: settings.door, unixSeconds: unixSeconds)
    }

    package var name: String { "property-list" }
    package var space: UInt16 { RowKind.space }
    package var kindNames: [UInt8: String] {
        Dictionary(uniqueKeysWithValues: RowKind.allCases.map { ($0.rawValue, "\($0)") })
    }
    /// The sessions of devices that are open.
    private var openSessions: [OpenSession] {
        let now = unixSeconds()
        return state.withLock { $0.sessions.values.filter { $0.seenAt + settings.sessionSeconds >= now } }
    }
    package var connectionCount: Int { openSessions.count }

    package func channels(of path: VirtualPath) -> [DoorChannel] {
        openSessions.filter { $0.path == path }.map { session in
            DoorChannel(user: session.user, client: session.device, openedAt: session.openedAt)
        }
    }

    // MARK: Sessions

    /// The session of a cookie; nil if there is none, or it has ended.
    func session(_ cookie: String) -> OpenSession? {
        let now = unixSeconds()
        return state.withLock { state in
            state.sessions[cookie].flatMap { $0.seenAt + settings.sessionSeconds >= now ? $0 : nil }
        }
    }

    /// The session that a device has open.
    func session(of device: String, _ user: String, _ app: String) -> OpenSession? {
        let cookie = state.withLock { $0.cookies[[app, user, device].map { ExactString($0) }] }
        return cookie.flatMap(session)
    }

    /// The part of what others leave of `sessionBytesMax` that the sessions of a user may keep, and what each session
    /// may in any case, in bytes.
    private static let (userPart, freeBytesMax) = (4, 64 << 10)

    /// True if a session may take a message of so many bytes, which it may keep until the rest has come.
    func hasRoom(for byteCount: Int, in session: OpenSession) -> Bool {
        if session.byteCount + byteCount <= Self.freeBytesMax { return true }
        var (mine, others) = (byteCount, 0)
        for other in state.withLock({ Array($0.sessions.values) }) {
            if other.app == session.app, other.user.hasBytes(of: session.user) {
                mine += other.byteCount
            } else {
                others += other.byteCount
            }
        }
        return mine <= (settings.sessionBytesMax - others) / Self.userPart
    }

    /// If there are too many sessions, forgets those that are at their end, the oldest first.
    private func makeRoom(in state: inout State) {
        var bytes = state.sessions.values.reduce(0) { $0 + $1.byteCount }
        guard state.sessions.count >= settings.sessionsMax || bytes >= settings.sessionBytesMax else { return }
        // Some more than one, since it takes a look at all of them.
        let (countMax, bytesMax) = (settings.sessionsMax * 9 / 10, settings.sessionBytesMax / 10 * 9)
        for session in state.sessions.values.filter(\.isAtEnd).sorted(by: { $0.seenAt < $1.seenAt })
        where state.sessions.count > countMax || bytes > bytesMax {
            bytes -= session.byteCount
            state.sessions[session.cookie] = nil
        }
        state.cookies = state.cookies.filter { state.sessions[$0.value] != nil }
    }

    /// A new session of a device, in place of its earlier one; nil if there are too many.
    func open(_ device: String, _ user: String, _ app: String) -> OpenSession? {
        let now = unixSeconds(), name = [app, user, device].map { ExactString($0) }
        return state.withLock { state in
            if let old = state.cookies[name] { state.sessions[old] = nil }
            if now >= state.sweptAt + 10 || state.sessions.count >= settings.sessionsMax {
                state.sweptAt = now
                state.sessions = state.sessions.filter { $0.value.seenAt + settings.sessionSeconds >= now }
                state.cookies = state.cookies.filter { state.sessions[$0.value] != nil }
            }
            makeRoom(in: &state)
            let ofUser = state.cookies.keys.count { $0 != name && $0[..<2] == name[..<2] }
            guard ofUser < settings.sessionsPerUserMax, state.sessions.count < settings.sessionsMax,
                state.sessions.values.reduce(0, { $0 + $1.byteCount }) < settings.sessionBytesMax
            else { return nil }
            var random = SystemRandomNumberGenerator()
            let cookie = (0..<2).map { _ in String(random.next() as UInt64, radix: 36) }.joined()
            let session = OpenSession(cookie: cookie, app: app, user: user, device: device, wire: self, now: now)
            state.sessions[cookie] = session
            state.cookies[name] = cookie
            return session
        }
    }
}
