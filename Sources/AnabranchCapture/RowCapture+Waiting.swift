extension RowCapture {
    /// The pause between two looks at the database.
    private static let lookPause = Duration.milliseconds(100)

    /// Waits until rows or objects have changed, so that a pass has something to do; at least for a tenth of a second.
    /// Changes that no trigger sees do not end it.
    ///
    /// - Parameter duration: the longest wait.
    /// - Throws: `CaptureError` with the code `unreadable` or `locked`; `CancellationError`.
    public func waitForChange(atMost duration: Duration) async throws {
        let end = ContinuousClock.now + duration
        var seen: SQLValue?
        repeat {
            try await Task.sleep(for: max(.zero, min(Self.lookPause, end - .now)))
            let hasChanged = try database.translating {
                // It is another one if others have committed something; then the history is looked at.
                let version = try database.db.value("PRAGMA data_version")
                defer { seen = version }
                return try version != seen && database.hasUncollected
            }
            if hasChanged || database.db.isReplaced || !changed.isEmpty { return }
        } while .now < end
    }
}

extension CapturedDatabase {
    /// True if there are entries that are not collected.
    fileprivate var hasUncollected: Bool {
        get throws {
            let last = try db.value("SELECT max(id) FROM sync_history")?.int ?? 0
            return try last > state("collected")?.int ?? 0
        }
    }
}
