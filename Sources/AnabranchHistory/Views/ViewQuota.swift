package import AnabranchCore

/// The time that evaluating views may take: for each user in all, and in one turn of the file.
package struct ViewQuota {
    /// True if the user of a client file has used it up.
    let isUsedUp: (ClientFileID) -> Bool
    /// Counts the time that has been used for the user of a client file.
    let charge: (ClientFileID, Duration) -> Void
    /// The step of a turn that begins now.
    let step: () -> StepLimit

    package init(
        isUsedUp: @escaping (ClientFileID) -> Bool, charge: @escaping (ClientFileID, Duration) -> Void,
        step: @escaping () -> StepLimit = { .none }
    ) {
        self.isUsedUp = isUsedUp
        self.charge = charge
        self.step = step
    }
}
