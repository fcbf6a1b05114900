import AnabranchHistory
import Synchronization

extension SyncServer {
    /// Applies what has changed while the server runs: every second certificates, permissions and exports, and every
    /// `ServerSettings.loginCheckSecondsMax` seconds logins that have ended. Tells the operator what has begun or
    /// ended.
    func refreshEverySecond(_ connections: ConnectionRegistry, _ space: SpaceReserve) async {
        var seconds: Int64 = 0, notices = ServerNotices(logger: logger)
        let lines = [connectionMetrics.refusalLines] + ((authenticator as? AppServices).map { [$0.refusalLines] } ?? [])
        notices.tell(space.shortage)
        while (try? await Task.sleep(for: .seconds(1))) != nil {
            notices.tell(space.shortage)
            notices.tell(connectionMetrics.refused, at: seconds)
            notices.tell(lines, at: seconds)
            notices.tell(refusedTokens, at: seconds)
            await tls?.refresh()
            if await authorizer.refresh() {
                connections.forEach { $0.recheckPermissions() }
                for door in doors.withLock({ $0 }) { door.recheckPermissions() }
            }
            await refreshExports()
            seconds += 1
            if seconds % max(1, settings.loginCheckSecondsMax) == 0 { await closeEndedLogins(connections) }
        }
    }

    /// The files of apps whose folders have changed follow. What goes wrong with one is logged by its file.
    func refreshExports() async {
        for app in await exports?.refresh() ?? [] {
            let files = files.withLock { $0 }
            _ = try? await files?.run(on: VirtualPath(app)) { try $0.followExport() }
        }
    }

    /// Closes the connections whose logins have ended.
    private func closeEndedLogins(_ connections: ConnectionRegistry) async {
        let logins = Set(await connections.ask { $0.login }.compactMap(\.answer))
        guard !logins.isEmpty else { return }
        let ended = await authenticator.ended(among: logins)
        guard !ended.isEmpty else { return }
        let answers = await connections.ask { handler in
            guard let login = handler.login, ended.contains(login) else { return false }
            handler.endLogin()
            return true
        }
        connectionMetrics.ended(answers.count { $0.answer })
    }
}
