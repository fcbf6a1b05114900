package import AnabranchCore
package import AnabranchHistory
import AnabranchProtocol
package import AnabranchRules

/// How a `ServerMachine` serves, and what takes the place of its clocks and of chance.
package struct ServerMachineSettings: Sendable {
    /// True for flexible sync, where clients see the parts of files that their queries name.
    package var isFlexible = false
    /// How much of the past is kept.
    package var history = HistoryPolicy()
    /// Decides what users may do; partitions are the bytes of their names.
    package var authorizer: any Authorizer = AllowAllAuthorizer()
    /// The app of flexible sync as it was exported, with its roles; nil if there is none.
    package var export: @Sendable () -> AppExport? = { nil }
    /// At about how many bytes a DOWNLOAD ends.
    package var downloadBytes = 1 << 20
    /// The same of a part of a bootstrap, which is a version of its own.
    package var bootstrapPartBytes = 1 << 20
    /// The memory that long messages may occupy until they are sent, in bytes.
    package var messageBytesMax = Int.max
    /// The length up to which a DOWNLOAD occupies none of that memory, in bytes.
    package var shortBodyBytesMax = DownloadMemory.shortBytesMax
    /// Begins a part of a turn, and says when it is over.
    package var beginStep: @Sendable () -> StepLimit = { .none }
    /// Where salts come from.
    package var randomness: @Sendable () -> any RandomNumberGenerator = { SystemRandomNumberGenerator() }
    /// The clock.
    package var now: @Sendable () -> ChangesetTime
    /// Seconds of a clock that only goes on.
    package var monotonicSeconds: @Sendable () -> UInt64

    package init(
        now: @escaping @Sendable () -> ChangesetTime, monotonicSeconds: @escaping @Sendable () -> UInt64
    ) {
        self.now = now
        self.monotonicSeconds = monotonicSeconds
    }

    var fileOptions: FileOptions {
        var options = FileOptions()
        options.limits.downloadBytesSoftMax = downloadBytes
        options.shortBodyBytesMax = shortBodyBytesMax
        options.bootstrapPartBytes = bootstrapPartBytes
        options.history = history
        options.isFlexible = { [isFlexible] _ in isFlexible }
        options.export = { [export] _ in export() }
        // What is done may not rest on how busy the machine is.
        options.instant = { [instant = ContinuousClock.now] in instant }
        return options
    }
}
