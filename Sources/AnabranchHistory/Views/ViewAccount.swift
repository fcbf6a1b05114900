package import AnabranchCore

/// Who pays for what views cost: evaluating their queries for each commit that can concern them.
package struct ViewAccount {
    /// Whether the user of a client file has used up what he may.
    let isUsedUp: (ClientFileID) -> Bool
    /// Has the user of a client file pay.
    let charge: (ClientFileID, Duration) -> Void

    package init(
        isUsedUp: @escaping (ClientFileID) -> Bool, charge: @escaping (ClientFileID, Duration) -> Void
    ) {
        self.isUsedUp = isUsedUp
        self.charge = charge
    }
}
