/// Measures transfers of one direction, one after another.
struct TransferMeter {
    private(set) var isRunning = false
    private(set) var progress = TransferProgress()

    /// A transfer begins; nothing happens if there is one.
    mutating func begin(total: Int64? = nil) {
        guard !isRunning else { return }
        isRunning = true
        progress = TransferProgress(transferred: 0, total: total, fraction: 0)
    }

    /// So much has been transferred, of so much or of an unknown amount.
    /// - Parameter estimate: how much of the whole it is, if the total is not known.
    mutating func advance(to transferred: Int64, of total: Int64?, estimate: Double = 0) {
        let fraction = total.map { $0 > 0 ? Double(transferred) / Double($0) : 0 } ?? estimate
        progress.transferred = max(progress.transferred, transferred)
        progress.total = total.map { max($0, progress.transferred) }
        // The end alone is the whole.
        progress.fraction = max(progress.fraction, min(fraction.isFinite ? fraction : 0, 0.999))
    }

    /// Everything is there.
    mutating func end() {
        guard isRunning else { return }
        isRunning = false
        progress.total = progress.transferred
        progress.fraction = 1
    }

    /// It cannot go on, and begins anew.
    mutating func stop() {
        isRunning = false
        progress = TransferProgress()
    }
}
