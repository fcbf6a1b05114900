package import AnabranchCore
package import AnabranchHistory

extension SyncedFile {
    /// Integrates one upload, in a commit of its own.
    ///
    /// - Returns: The outcome of the upload.
    /// - Throws: `HistoryError`, also if the upload is refused.
    @discardableResult
    package func integrateAtOnce(_ upload: Upload, from ident: ClientFileID) throws(HistoryError) -> ClientOutcome? {
        try enqueue(upload, from: ident)
        let outcomes = try integrate(at: 1).outcomes
        for outcome in outcomes {
            if let refusal = outcome.refusal { throw refusal }
        }
        return outcomes.first { $0.ident == ident }
    }
}
