/// The resources that a server has used by a moment.
struct ServerExpenses: Sendable {
    var time: ContinuousClock.Instant
    var cpuSeconds: Double
    var writtenBytes: Double
    /// The transactions of the store; nil if the server does not tell.
    var transactions: Double?

    static func - (left: Self, right: Self) -> AttackCosts {
        AttackCosts(
            seconds: (left.time - right.time) / .seconds(1), cpuSeconds: left.cpuSeconds - right.cpuSeconds,
            writtenBytes: left.writtenBytes - right.writtenBytes,
            transactions: left.transactions.flatMap { last in right.transactions.map { last - $0 } })
    }
}

/// The costs of a part of a run to the server.
struct AttackCosts: Sendable {
    var seconds: Double
    var cpuSeconds: Double
    var writtenBytes: Double
    var transactions: Double?

    /// The costs without those of the bystanders, in proportion to how often they wrote.
    func without(_ count: Int, of bystanders: AttackCosts?, _ aloneCount: Int) -> AttackCosts {
        guard let bystanders, aloneCount > 0 else { return self }
        let share = Double(count) / Double(aloneCount)
        var costs = self
        costs.cpuSeconds = max(0, cpuSeconds - share * bystanders.cpuSeconds)
        costs.writtenBytes = max(0, writtenBytes - share * bystanders.writtenBytes)
        costs.transactions = transactions.map { max(0, $0 - share * (bystanders.transactions ?? 0)) }
        return costs
    }

    func write(to report: AttackReport, as name: String) {
        report.figure("\(name)_time", seconds, "s")
        report.figure("\(name)_cpu", cpuSeconds, "s")
        report.figure("\(name)_written", writtenBytes / 1e6, "MB")
        if let transactions { report.figure("\(name)_transactions", transactions) }
    }
}
