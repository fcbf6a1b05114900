import AnabranchCore
import AnabranchHistory
import AnabranchProtocol
import AnabranchRules
import OrderedCollections

/// What the export of an app says of its flexible file (`Spec/FlexibleRules.md`).
extension FileSessions {
    private var export: AppExport? { flexible == nil ? nil : environment.options.export(file.path) }

    /// What a user may do.
    func rules(of user: Principal) -> UserRules {
        guard let export else { return .everything }
        return ruleUser(user).map(export.rules.rules) ?? .nothing
    }

    /// Nil if what is stored of the user is no JSON.
    private func ruleUser(_ user: Principal) -> RuleUser? {
        try? RuleUser(
            id: user.user ?? "", name: user.subject, customData: user.customData, data: user.data,
            providers: user.providers)
    }

    /// Has the file do what the export says: when it is opened, and when the export has changed.
    /// - Throws: a failure of the store.
    func followExport() throws(HistoryError) {
        guard let flexible, let export else { return }
        flexible.queryableFields = export.sync.queryableFields
        flexible.isSchemaFixed = !export.sync.isInDevelopmentMode && !export.schema.classes.isEmpty
        try add(export.schema, to: flexible)
        for session in running.values { flexible.change(session.clientFile, to: rules(of: session.user)) }
        if hasNews { announce(until: environment.beginStep()) }
    }

    private func add(_ schema: AppSchema, to flexible: FlexibleFile) throws(HistoryError) {
        do {
            try flexible.write(at: environment.now()) { try schema.add(to: $0) }
        } catch let error as HistoryError {
            throw error
        } catch {
            environment.log.note(unusableSchema: "\(error)", path: file.path)
        }
    }

    /// Says why writes of a client were refused: by which role, or because of which query. A line a class.
    func note(_ refused: [CompensatingWrite.Object], of key: SessionKey) {
        guard let session = running[key], let view = session.view else { return }
        for (name, objects) in Dictionary(grouping: refused, by: \.className) {
            let className = String(decoding: name, as: UTF8.self)
            let role = ruleUser(session.user).flatMap { export?.rules.roleName(ofClass: className, for: $0) }
            environment.log.note(
                refused: objects, of: session.clientFile, user: session.user.user, role: role,
                query: view.query(ofClass: className), path: file.path)
        }
    }

    /// An error as clients of the app are told it.
    func adapted(_ error: ErrorMessage) -> ErrorMessage {
        guard error.action == .clientReset, export?.sync.isRecoveryDisabled ?? false else { return error }
        var error = error
        error.action = .clientResetNoRecovery
        return error
    }
}
