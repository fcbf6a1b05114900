import AnabranchCore
import AnabranchHistory

extension SyncedFile {
    /// Integrates one upload, in a commit of its own.
    ///
    /// - Throws: `HistoryError`, also if the upload is refused.
    package func integrateAtOnce(_ upload: Upload, from ident: ClientFileID) throws(HistoryError) {
        try enqueue(upload, from: ident)
        for outcome in try integrate(at: 1).outcomes {
            if let refusal = outcome.refusal { throw refusal }
        }
    }
}
