import AnabranchClient
import AnabranchCore

extension RowCapture {
    /// Subscribes to all objects of the tables that have classes, where the replica has subscriptions: the server
    /// refuses a set with a class that it does not know.
    func subscribe() async throws {
        guard let known = await replica.record.subscriptions?.latest.subscriptions else { return }
        let missing = try await classes().filter { name in !known.contains { $0.className.hasBytes(of: name) } }
        if !missing.isEmpty { try await replica.subscribe(known + missing.map { Subscription($0) }) }
    }

    /// The tables that have classes.
    private func classes() async throws -> [String] {
        let state = try await replica.snapshot().state
        return database.tables.map(\.name).filter { state.schema(ofClass: Array($0.utf8)) != nil }
    }
}
