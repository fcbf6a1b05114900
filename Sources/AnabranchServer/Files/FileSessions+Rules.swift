import AnabranchCore
import AnabranchHistory
import AnabranchProtocol
import AnabranchRules
import OrderedCollections

/// The rules and settings for a flexible file in the export of its app (`Spec/FlexibleRules.md`).
extension FileSessions {
    private var export: AppExport? { flexible == nil ? nil : environment.options.export(file.path) }

    /// The rules for a user.
    func rules(of user: Principal) -> UserRules {
        export.map { $0.rules(of: user) } ?? .everything
    }

    /// Makes the file follow the export: when it is opened, and when the export has changed.
    /// - Throws: a failure of the store.
    func followExport() throws(HistoryError) {
        guard let flexible, let export else { return }
        flexible.queryableFields = export.sync.queryableFields
        flexible.isSchemaFixed = !export.sync.isInDevelopmentMode && !export.schema.classes.isEmpty
        try add(export.schema, to: flexible)
        for session in running.values { flexible.change(session.clientFile, to: rules(of: session.user)) }
        if hasUnannouncedVersions { announce(until: environment.beginStep()) }
    }

    private func add(_ schema: AppSchema, to flexible: FlexibleFile) throws(HistoryError) {
        do {
            try flexible.write(at: environment.now()) { try schema.add(to: $0) }
        } catch let error as HistoryError {
            throw error
        } catch {
            environment.log.write(unusableSchema: "\(error)", path: file.path)
        }
    }

    /// Logs why writes of a client were refused: by which role, or because of which query. There is one line for each
    /// class.
    func record(_ refused: [CompensatingWrite.Object], of key: SessionKey) {
        guard let session = running[key], let view = session.view else { return }
        for (name, objects) in Dictionary(grouping: refused, by: \.className) {
            let className = String(decoding: name, as: UTF8.self)
            let role = RuleUser(session.user).flatMap { export?.rules.roleName(ofClass: className, for: $0) }
            environment.log.write(
                refused: objects, of: session.clientFile, user: session.user.user, role: role,
                query: view.query(ofClass: className), path: file.path)
        }
    }

    /// An error in the form for clients of the app.
    func adapted(_ error: ErrorMessage) -> ErrorMessage {
        guard error.action == .clientReset, export?.sync.isRecoveryDisabled ?? false else { return error }
        var error = error
        error.action = .clientResetNoRecovery
        return error
    }
}

extension AppExport {
    /// The rules for a user of the app.
    func rules(of user: Principal) -> UserRules { RuleUser(user).map(rules.rules) ?? .nothing }
}

extension RuleUser {
    /// The user as rules see it; nil if the stored data of the user are not JSON.
    init?(_ user: Principal) {
        do throws(RuleError) {
            try self.init(
                id: user.user ?? "", name: user.subject, customData: user.customData, data: user.data,
                providers: user.providers)
        } catch { return nil }
    }
}
