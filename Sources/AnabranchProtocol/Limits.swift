/// Everything a peer can ask for has a bound, and the bound stands here (`Spec/Protocol.md`, sections 12 and 13).
///
/// The defaults suit every released client; a host may configure them. A size is compared with its limit before
/// memory is reserved for it.
public struct Limits: Equatable, Sendable {
    /// Longest WebSocket message in bytes. The host ends the connection with close code 1009 beyond it, upon which
    /// clients reset their files: never below the 16 MiB that a client packs into one UPLOAD, plus its head.
    public var messageBytesMax = 32 << 20

    /// Longest partition value of a BIND in bytes; in flexible sync its longest JSON.
    public var partitionBytesMax = 64 << 10

    /// Longest partition value of a BIND that may make a new synced file, in bytes. Enforced by the host, which knows
    /// the existing files.
    public var newPartitionBytesMax = 1024

    /// Longest text of a query of flexible sync in bytes, in IDENT and QUERY.
    public var queryBytesMax = 256 << 10

    /// TEST_COMMANDs of a session that wait for their answers to be sent; further ones get none. Only applications that
    /// are built for tests send them. With more obsolete requests (`Spec/Protocol.md`, section 4.6) a session ends.
    public var testCommandsMax = 16

    /// True if the TEST_COMMAND `ECHO_ERROR` makes the server send the error that the client names: for tests of
    /// applications.
    public var echoesErrors = false

    /// Longest token of a BIND in bytes. Clients have sent none since 11.8; it is skipped.
    public var tokenBytesMax = 8 << 10

    /// Largest uncompressed size in bytes that a compressed UPLOAD may announce; at most 4 GiB − 1 count.
    public var inflatedBytesMax = 64 << 20

    /// Changesets of one UPLOAD. Clients pack 128 KiB of them into one, which is a few thousand at most.
    public var uploadChangesetsMax = 65_536

    /// Changesets of one DOWNLOAD that a client takes. Servers end one after 16 MiB of them or earlier.
    public var downloadChangesetsMax = 1_048_576

    /// Bytes in memory of compensating writes that a client keeps until their versions have come.
    public var compensatingWriteBytesMax = 64 << 20

    /// A body of up to this many bytes is sent as it is; a longer one is deflated if that makes it smaller.
    public var compressionThresholdBytes = 1024

    /// The effort of zlib, 1 (fast) … 9 (small).
    public var compressionLevel = 1

    /// A DOWNLOAD ends after the entry that takes its changesets beyond this many bytes. The host obeys it when it
    /// scans the log.
    public var downloadBytesSoftMax = 16 << 20

    /// Sessions on one connection. Further ones are refused with 201, and as many again are remembered until the
    /// client unbinds them; a client that binds even more loses the connection with 100.
    public var sessionsPerConnectionMax = 1000

    /// DOWNLOADs of one connection that are being made, or wait to be sent, at the same time.
    public var downloadsUnderWayMax = 4

    /// A connection that has brought no message for this long is dead: a client may send a PING every ten minutes.
    /// Those that show a shorter rhythm are dead earlier. Enforced by the host.
    public var silenceMillisecondsMax: Int64 = 660_000

    /// How long the socket of a connection may accept nothing while something waits to be sent, whatever the client
    /// sends in that time. Enforced by the host.
    public var stallMillisecondsMax: Int64 = 60_000

    /// How long the host waits for the client to leave after a connection-level error.
    public var softCloseMillisecondsMax: Int64 = 600_000

    /// The delay asked of a client that could not integrate a DOWNLOAD for a reason that a reset does not cure.
    public var integrationFailureBackOff = BackOff(firstSeconds: 300, maxSeconds: 3600, multiplier: 2)

    /// Bytes of the text in a client's JSON_ERROR that are kept for the log.
    public var clientErrorTextBytesMax = 1024

    /// The defaults.
    public init() {}

    /// Deflate cannot shrink further than this, so a larger announcement is false.
    static let inflationRatioMax = 1032

    /// Characters of the longest number in a message. As the number of fields is fixed, this also bounds the head.
    static let numberBytesMax = 20
}

/// When a client is to come back after an error: first after `firstSeconds`, then each time `multiplier` times as late,
/// at most after `maxSeconds`. The client subtracts a random part of up to a quarter.
public struct BackOff: Equatable, Sendable {
    /// The delay after the first error, in seconds.
    public var firstSeconds: Int
    /// The longest delay, in seconds.
    public var maxSeconds: Int
    /// The factor by which the delay grows with each error that follows.
    public var multiplier: Int

    /// A delay, which the client applies in whole seconds.
    public init(firstSeconds: Int, maxSeconds: Int, multiplier: Int) {
        self.firstSeconds = firstSeconds
        self.maxSeconds = maxSeconds
        self.multiplier = multiplier
    }
}
