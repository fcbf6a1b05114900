import AnabranchCore

@testable import AnabranchHistory

/// Entries that nobody needs any more go now and then (`Spec/BoundedHistory.md`, section 6).
extension Workload {
    func replaceRogue() throws {
        try file.expire(rogue.ident)
        try require(try code { _ = try file.identify(IdentRequest(file: rogue)) } == .clientFileExpired, "I-14")
        rogue = try file.allocateIdent()
        try keepsNothing(rogue.ident)
        replaced += 1
    }

    /// The client file is not served from the log: it keeps no entry from going.
    func keepsNothing(_ ident: ClientFileID) throws {
        guard trims, var row = try file.clientFile(ident) else { return }
        row.lineage = .none
        try file.commit([row], at: file.head)
    }

    func trim() throws {
        let floor = try file.floor(upTo: file.version), before = file.head.baseVersion
        while let commit = try file.trimCommit(upTo: floor, entriesMax: 1 + below(5)) { try file.commit(commit) }
        let base = file.head.baseVersion
        if !file.isIntegrating, file.version > 0 {
            // A segment goes as a whole or not at all.
            let wanted = min(floor, file.version - 1)
            let end = try file.read { view throws(HistoryError) in try view.trimEnd(near: wanted, upTo: wanted) }
            try require(max(base, end ?? 0) == base && base <= max(before, wanted), "BH-1: \(base), not \(wanted)")
        }
        trimmedCount += base.rawValue - before.rawValue
    }
}
