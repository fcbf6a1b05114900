import AnabranchCore
import AnabranchTesting
import Testing

@testable import AnabranchProtocol
import AnabranchTesting

/// One side receives what the other has sent: each message of each version that knows it, over random contents.
@Suite struct RoundTripTests {
    private static let messagesPerVersion = 40

    /// A failure names its seed and the message; `swift test --filter RoundTripTests` repeats it.
    @Test(arguments: ProtocolVersion.supported, ClientMessage.Kind.allCases)
    func messagesOfClientsComeThrough(version: Int, kind: ClientMessage.Kind) throws {
        // JSON_ERROR of a client came with version 7.
        guard kind != .error || version >= 7 else { return }
        let modes = SyncMode.allCases.filter { $0 == .flexible || kind != .query }
        for (mode, seed) in modes.flatMap({ mode in (0..<UInt64(Self.messagesPerVersion)).map { (mode, $0) } }) {
            var random = RandomMessages(mode, seed: seed &* 31 &+ UInt64(version))
            let message = random.client(kind), codec = ClientMessageCodec(limits: random.limits(), mode: mode)
            let encoded = codec.encode(message)
            #expect(ClientMessage.Kind(of: encoded.bytes) == kind)
            #expect(try codec.decode(encoded.bytes) == message, "seed \(seed), \(text(encoded.head))")
            if case .upload(_, let upload) = message {
                #expect(UploadMessage(upload.upload) == upload, "seed \(seed)")
                #expect(upload.changesetCount == upload.upload.changesets.count)
                #expect(upload.changesetBytes == upload.upload.changesets.reduce(0) { $0 + $1.changeset.count })
            }
        }
    }

    @Test(arguments: ProtocolVersion.supported, ServerMessage.Kind.allCases)
    func messagesOfServersComeThrough(number: Int, kind: ServerMessage.Kind) throws {
        let version = ProtocolVersion(number)
        guard kind != .error || version.hasErrorMessages, kind != .log || version.hasLogMessages else { return }
        let modes = SyncMode.allCases.filter { $0 == .flexible || kind != .queryError }
        for (mode, seed) in modes.flatMap({ mode in (0..<UInt64(Self.messagesPerVersion)).map { (mode, $0) } }) {
            var random = RandomMessages(mode, seed: seed &* 31 &+ UInt64(number))
            let message = random.server(kind, version)
            let codec = ServerMessageCodec(limits: random.limits(), mode: mode, version: version)
            let encoded = codec.encode(message)
            #expect(ServerMessage.Kind(of: encoded.bytes) == kind)
            #expect(try codec.decode(encoded.bytes) == message, "seed \(seed), \(text(encoded.head))")
            if case .download(let session, let download) = message {
                #expect(DownloadMessage(download.download, batch: download.batch) == download, "seed \(seed)")
                let body = EncodedBody(download.download.changesets)
                let shared = codec.encodeDownload(session, download.progress, body, download.batch)
                #expect(try codec.decode(shared.bytes) == message, "seed \(seed): a shared body says the same")
            }
        }
    }

    /// Whatever becomes of a message on the way, it is read or refused.
    @Test(arguments: 0..<200 as Range<UInt64>)
    func damagedMessagesAreRefusedOrRead(seed: UInt64) {
        let refusals: Set<ErrorCode> = [
            .unknownMessage, .badSyntax, .badDecompression, .badChangesetHeader, .badChangesetSize,
        ]
        var random = RandomMessages(seed % 2 == 0 ? .flexible : .partition, seed: seed)
        let version = ProtocolVersion(Int(seed % 13) + 2)
        let codec = ServerMessageCodec(limits: random.limits(), mode: random.mode, version: version)
        for kind in ServerMessage.Kind.allCases {
            for _ in 0..<10 {
                let damaged = random.damaged(codec.encode(random.server(kind, version)).bytes)
                do throws(ProtocolError) {
                    if case .download(_, let download) = try codec.decode(damaged) { _ = download.download }
                } catch {
                    #expect(refusals.contains(error.code), "seed \(seed): \(error)")
                }
            }
        }
    }
}

/// Random messages with everything that a message can hold.
private struct RandomMessages {
    let mode: SyncMode
    private var generator: SeededRandom

    init(_ mode: SyncMode, seed: UInt64) {
        self.mode = mode
        generator = SeededRandom(seed: seed)
    }

    private mutating func below(_ bound: Int) -> Int { Int.random(in: 0..<bound, using: &generator) }

    /// Small numbers and the largest ones are as likely as those between.
    private mutating func number() -> UInt64 {
        switch below(4) {
        case 0: UInt64(below(3))
        case 1: UInt64(Int64.max) - UInt64(below(3))
        default: UInt64.random(in: 0...UInt64(Int64.max) >> UInt64(below(62)), using: &generator)
        }
    }

    private mutating func number<Number: TypedNumber>() -> Number { Number(number()) }

    private mutating func ident<Number: TypedNumber>() -> Number { Number(max(1, number())) }

    private mutating func salted() -> SaltedVersion {
        below(4) == 0 ? SaltedVersion() : SaltedVersion(version: number(), salt: ident())
    }

    private mutating func bytes(_ countMax: Int) -> [UInt8] {
        let span: ClosedRange<UInt8> = below(2) == 0 ? 0...1 : 0...255
        return (0..<below(countMax + 1)).map { _ in UInt8.random(in: span, using: &generator) }
    }

    private mutating func words() -> String {
        let scalars: [Unicode.Scalar] = ["a", "\"", "\\", "\n", "\u{0}", "é", "\u{2028}", "👩", "\u{301}", "/"]
        return String(String.UnicodeScalarView((0..<below(12)).map { _ in scalars[below(scalars.count)] }))
    }

    /// Bodies are deflated from the first byte on, or never.
    mutating func limits() -> Limits {
        var limits = Limits()
        limits.compressionThresholdBytes = below(2) == 0 ? 0 : .max
        return limits
    }

    mutating func client(_ kind: ClientMessage.Kind) -> ClientMessage {
        switch kind {
        case .bind where mode == .flexible:
            .bind(session: ident(), BindRequest(flexible: flexibleBind(), needsFileIdent: below(2) == 0))
        case .bind:
            .bind(session: ident(), BindRequest(partition: bytes(60), needsFileIdent: below(2) == 0))
        case .ident:
            .ident(
                session: ident(),
                IdentRequest(
                    file: SaltedFileID(ident: ident(), salt: ident()),
                    download: DownloadCursor(serverVersion: number(), clientVersion: number()), latest: salted(),
                    subscriptions: mode == .flexible ? subscriptions() : nil))
        case .query: .query(session: ident(), subscriptions())
        case .upload: .upload(session: ident(), UploadMessage(upload()))
        case .mark: .mark(session: ident(), request: max(1, number()))
        case .unbind: .unbind(session: ident())
        case .ping:
            .ping(timestamp: Int64.random(in: .min ... .max, using: &generator), roundTripMilliseconds: number())
        case .error:
            .error(session: ident(), code: Int(Int32.random(in: .min ... .max, using: &generator)), text: bytes(40))
        case .testCommand: .testCommand(session: ident(), request: max(1, number()), body: bytes(40))
        }
    }

    private mutating func subscriptions() -> SubscriptionSet { SubscriptionSet(version: number(), query: bytes(60)) }

    private mutating func flexibleBind() -> FlexibleBind? {
        below(3) == 0
            ? nil
            : FlexibleBind(
                schemaVersion: number(), sessionReason: below(2), migratedPartition: below(2) == 0 ? nil : words())
    }

    private mutating func upload() -> Upload {
        let changesets = (0..<below(4)).map { _ in
            UploadedChangeset(
                cursor: UploadCursor(clientVersion: number(), serverVersion: number()), timestamp: number(),
                origin: number(), changeset: [1] + bytes(299))
        }
        return Upload(
            progress: UploadCursor(clientVersion: number(), serverVersion: number()), lockedVersion: number(),
            changesets: changesets)
    }

    mutating func server(_ kind: ServerMessage.Kind, _ version: ProtocolVersion) -> ServerMessage {
        switch kind {
        case .ident: .ident(session: ident(), SaltedFileID(ident: ident(), salt: ident()))
        case .download:
            .download(
                session: ident(),
                DownloadMessage(download(), batch: mode == .flexible ? batch().asTold(in: version) : nil))
        case .queryError:
            .queryError(session: ident(), QueryRefusal(version: number(), message: words(), code: .badQuery))
        case .testCommand: .testCommand(session: ident(), request: max(1, number()), body: bytes(40))
        case .mark: .mark(session: ident(), request: max(1, number()))
        case .unbound: .unbound(session: ident())
        case .pong: .pong(timestamp: Int64.random(in: .min ... .max, using: &generator))
        case .log:
            .log(
                session: number(),
                LogMessage(
                    level: LogMessage.Level.allCases.randomElement(using: &generator) ?? .info, message: words(),
                    connectionIdent: words()))
        case .error: error()
        }
    }

    private mutating func batch() -> QueryBatch {
        QueryBatch(
            version: number(), state: QueryBatch.State.allCases[below(3)],
            estimate: [0, 1, 0.4, Double.random(in: 0...1, using: &generator)][below(4)])
    }

    private mutating func download() -> Download {
        let changesets = (0..<below(4)).map { _ in
            DownloadedChangeset(
                cursor: DownloadCursor(serverVersion: number(), clientVersion: number()),
                tag: OriginTag(timestamp: number(), ident: number()), changeset: bytes(300),
                originalBytes: Int(number()))
        }
        return Download(
            progress: DownloadProgress(
                cursor: DownloadCursor(serverVersion: number(), clientVersion: number()), latest: salted(),
                upload: UploadCursor(clientVersion: number(), serverVersion: number()),
                downloadableBytes: mode == .partition ? number() : 0),
            changesets: changesets)
    }

    private mutating func error() -> ServerMessage {
        let sendable = ErrorCode.known.filter(\.isSendable)
        var error = ErrorMessage(sendable[below(sendable.count)])
        (error.message, error.logURL, error.triesAgain) = (words(), words(), below(2) == 0)
        let actions: [ErrorCode.Action] = [.transient, .warning, .clientReset, .clientResetNoRecovery, .deleteRealm]
        error.action = actions[below(actions.count)]
        if below(2) == 0 {
            error.backOff = BackOff(firstSeconds: below(9), maxSeconds: below(900), multiplier: below(4))
        }
        if below(2) == 0 {
            let updates = (0..<below(3)).map { _ in
                ErrorMessage.Rejection.Update(reason: words(), table: words(), primaryKey: words())
            }
            error.rejection = ErrorMessage.Rejection(
                clientVersion: number(), serverVersion: below(2) == 0 ? nil : number(), updates: updates)
        }
        return .error(session: error.code.isConnectionLevel ? 0 : ident(), error)
    }

    /// A few bytes changed, left out or added.
    mutating func damaged(_ message: [UInt8]) -> [UInt8] {
        var message = message
        for _ in 0..<1 + below(3) {
            guard !message.isEmpty else { return [] }
            let place = below(message.count)
            switch below(4) {
            case 0: message[place] = UInt8.random(in: 0...255, using: &generator)
            case 1: message.remove(at: place)
            case 2: message.insert(UInt8.random(in: 0x20...0x39, using: &generator), at: place)
            default: message.removeLast(below(message.count))
            }
        }
        return message
    }
}
