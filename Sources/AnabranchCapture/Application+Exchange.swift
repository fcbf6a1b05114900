import AnabranchCore

// Rows of which none can be the first: they exchange unique values or keys, which SQLite checks as each one is written,
// or refer to each other (`Spec/Capture.md`, section 6).

extension Application {
    /// Carries out `body`, or nothing of it if something is in the way.
    mutating func succeeds(_ body: (inout Self) throws -> Void) throws -> Bool {
        let before = outcome
        do {
            try db.savepoint { try body(&self) }
            return true
        } catch is Refusal {} catch is IsBusy {} catch let error as SQLError where !error.isBusy && !error.isFatal {}
        outcome = before
        return false
    }

    /// The most groups that are tried: each is the one before without what cannot be written in it.
    private static let groupsMax = 8

    /// Writes objects that were in each other's way: their rows give up first what they are not going to have, and
    /// refer to each other when all are there.
    /// - Returns: those that are still not written.
    mutating func exchange(_ objects: [(DirtyObject, StateObject?)]) throws -> [(DirtyObject, StateObject?)] {
        var group = objects
        defer { isProvisional = false }
        for _ in 0..<Self.groupsMax where !group.isEmpty {
            var failed: Set<DirtyObject> = []
            let isDone = try succeeds { application in
                application.isProvisional = true
                failed = try application.vacate(group)
                for isLast in [false, true] where failed.isEmpty {
                    application.isProvisional = !isLast
                    for (dirty, object) in group {
                        application.outcome.waiting[dirty] = nil
                        if try !application.succeeds({ try $0.carryOut(dirty, object) }) { failed.insert(dirty) }
                    }
                }
                if !failed.isEmpty || application.db.hasDeferredViolations { throw IsBusy() }
            }
            if isDone {
                let written = Set(group.map(\.0))
                done.formUnion(written)
                return objects.filter { !written.contains($0.0) }
            }
            if failed.isEmpty { break }
            group.removeAll { failed.contains($0.0) }
        }
        return objects
    }

    /// Has rows hold values that no others have in the columns that are going to be changed, until they are.
    /// - Returns: the objects whose rows do not let that happen.
    private mutating func vacate(_ objects: [(DirtyObject, StateObject?)]) throws -> Set<DirtyObject> {
        try db.execute("PRAGMA ignore_check_constraints = ON")
        defer { try? db.execute("PRAGMA ignore_check_constraints = OFF") }
        var failed: Set<DirtyObject> = []
        for (dirty, object) in objects {
            guard let object, let plan = plans[dirty.table] else { continue }
            if try !succeeds({ try $0.vacate(dirty, object, plan) }) { failed.insert(dirty) }
        }
        return failed
    }

    private mutating func vacate(_ dirty: DirtyObject, _ object: StateObject, _ plan: Plan) throws {
        let table = plan.table
        guard table.rule.pulls.contains(.update), let row = try database.row(of: dirty.guid) else { return }
        if busy.contains(row) { throw IsBusy() }
        guard let values = try database.readRow(row.key, of: table)?.values else { return }
        let unused = try changes(of: values, dirty, object, plan).new.map { index, value in
            let column = table.properties[index]
            guard value == .null else { return (index: index, value: values[index].unused) }
            if column.isNotNull || table.shape.keyColumns.contains(column.name) { throw IsBusy() }
            return (index: index, value: SQLValue.null)
        }
        if !unused.isEmpty { try set(unused, in: row, values, dirty, plan) }
    }
}

extension SQLValue {
    /// Another value of the same storage class, as good as certainly one that no row has.
    var unused: SQLValue {
        let number = Int64.random(in: .min ... .max)
        return switch self {
        case .null: .null
        case .int: .int(number)
        case .real: .real(Double(number))
        case .text: SQLValue("\(number)")
        case .blob: .blob(Array("\(number)".utf8))
        }
    }
}
