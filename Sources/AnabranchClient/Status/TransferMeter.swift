/// Measures transfers of one direction, one after another.
struct TransferMeter {
    private(set) var isRunning = false
    private(set) var progress = TransferProgress()

    /// Begins a transfer, unless one is running.
    mutating func begin(total: Int64? = nil) {
        guard !isRunning else { return }
        isRunning = true
        progress = TransferProgress(transferred: 0, total: total, fraction: 0)
    }

    /// Records the bytes transferred so far, of a total that is nil if it is not known.
    /// - Parameter estimate: the part of the whole that it is, if the total is not known.
    mutating func advance(to transferred: Int64, of total: Int64?, estimate: Double = 0) {
        let fraction = total.map { $0 > 0 ? Double(transferred) / Double($0) : 0 } ?? estimate
        progress.transferred = max(progress.transferred, transferred)
        progress.total = total.map { max($0, progress.transferred) }
        // Only the end is the whole.
        progress.fraction = max(progress.fraction, min(fraction.isFinite ? fraction : 0, 0.999))
    }

    /// Ends the transfer: everything has arrived.
    mutating func end() {
        guard isRunning else { return }
        isRunning = false
        progress.total = progress.transferred
        progress.fraction = 1
    }

    /// Stops the transfer, which cannot go on and has to start over.
    mutating func stop() {
        isRunning = false
        progress = TransferProgress()
    }
}
