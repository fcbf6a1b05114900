package import AnabranchCore

/// How long evaluating views for commits that can concern them may take, by user.
package struct ViewQuota {
    /// Whether the user of a client file has used it up.
    let isUsedUp: (ClientFileID) -> Bool
    /// Counts what has been used for the user of a client file.
    let charge: (ClientFileID, Duration) -> Void

    package init(
        isUsedUp: @escaping (ClientFileID) -> Bool, charge: @escaping (ClientFileID, Duration) -> Void
    ) {
        self.isUsedUp = isUsedUp
        self.charge = charge
    }
}
