package import AnabranchCore

/// The expiry of a flexible file's client files, whose views are dropped (`Spec/FlexibleSync.md`, section 3.5).
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
            markBack(ident)
            views[ident] = nil
        }
    }
}
