package import AnabranchCore

/// Client files of a flexible file that expire: their views go (`Spec/FlexibleSync.md`, section 3.5).
extension FlexibleFile {
    /// As `SyncedFile.expire`.
    @discardableResult
    package func expire(_ ident: ClientFileID) throws(HistoryError) -> Bool {
        let isNew = try file.expire(ident)
        forgetViews(of: [ident])
        return isNew
    }

    /// Forgets the views of client files that maintenance has let expire.
    package func forgetViews(of idents: [ClientFileID]) {
        for ident in idents {
            leave(ident)
            views[ident] = nil
            sets.remove(ident)
        }
    }

    /// Does something with a view, whose client file expires if that ends with `clientFileExpired`.
    func expiring<Result>(
        _ ident: ClientFileID, _ body: () throws(HistoryError) -> Result
    ) throws(HistoryError) -> Result {
        do throws(HistoryError) { return try body() } catch {
            if error.code == .clientFileExpired { try expire(ident) }
            throw error
        }
    }
}
