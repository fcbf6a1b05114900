import AnabranchCore
import AnabranchHistory
import AnabranchServer
import ServiceLifecycle

/// Decides about orders: one that the stock suffices for is accepted and taken out of it, any other one is refused.
struct OrderDesk: Service {
    static let shop = VirtualPath(app: "shop", partition: "orders")

    let server: SyncServer

    func run() async throws {
        try await server.listening()
        try await declare()
        var start: ChangeCursor? = try await decideAll()
        while let cursor = start { start = try await follow(from: cursor) }
    }

    /// Follows the changes until the program ends.
    /// - Returns: where to go on if the log has forgotten what follows the cursor; nil at the end.
    private func follow(from cursor: ChangeCursor) async throws -> ChangeCursor? {
        do {
            for try await transaction in server.changes(in: Self.shop, after: cursor).cancelOnGracefulShutdown() {
                for object in transaction.objects where object.className == "Order" { try await decide(object.key) }
            }
            return nil
        } catch is SyncServerError {
            return try await decideAll()
        }
    }

    /// Decides about the orders that are there: also those that have come while the program did not run.
    /// - Returns: what comes after them.
    private func decideAll() async throws -> ChangeCursor {
        let (keys, cursor) = try await server.read(Self.shop) { state in
            (try state.objects("Order").compactMap(\.key), state.cursor)
        }
        for key in keys { try await decide(key) }
        return cursor
    }

    /// Reads and writes in one transaction: no other order takes the same goods, and an order that was decided about
    /// stays as it is.
    private func decide(_ key: PrimaryKey) async throws {
        try await server.write(to: Self.shop) { tx in
            guard let order = try tx.object("Order", key: key), order["state"] == "placed" else { return }
            let name: String = order["goods"] ?? "", count: Int = order["count"] ?? 0
            let goods = try tx.object("Goods", key: PrimaryKey(name)), stock: Int = goods?["stock"] ?? 0
            guard let goods, count > 0, count <= stock else {
                order["state"] = "refused"
                return
            }
            try goods.add(-Int64(count), to: "stock")
            order["state"] = "accepted"
        }
    }

    /// The classes, which are made at the first start and stay as they are at the others.
    private func declare() async throws {
        try await server.write(to: Self.shop) { tx in
            try tx.addClass("Goods", key: "id", .string)
            try tx.addColumn("stock", .int, to: "Goods")
            try tx.addClass("Order", key: "id", .uuid)
            try tx.addColumn("goods", .string, to: "Order")
            try tx.addColumn("count", .int, to: "Order")
            try tx.addColumn("state", .string, to: "Order")
        }
    }
}
