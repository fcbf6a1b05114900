public import Logging
import NIOSSL

/// A certificate and its key, in PEM, for TLS 1.2 and 1.3. Read again when they change; connections that are open keep
/// what they began with.
public final class TLSFiles: Sendable {
    private let context: WatchedFile<NIOSSLContext>

    /// - Parameters:
    ///   - certificatePath: the server's certificate, followed by those that vouch for it.
    ///   - keyPath: the private key of the certificate.
    /// - Throws: if they cannot be read, or do not belong together.
    public init(certificatePath: String, keyPath: String, logger: Logger) async throws {
        context = try await WatchedFile(certificatePath, keyPath, logger: logger) {
            let chain = try NIOSSLCertificate.fromPEMFile(certificatePath)
            let key = try NIOSSLPrivateKey(file: keyPath, format: .pem)
            var configuration = TLSConfiguration.makeServerConfiguration(
                certificateChain: chain.map { .certificate($0) }, privateKey: .privateKey(key))
            configuration.minimumTLSVersion = .tlsv12
            return try NIOSSLContext(configuration: configuration)
        }
    }

    /// Makes the handler that encrypts a new connection.
    func makeHandler() -> NIOSSLServerHandler { NIOSSLServerHandler(context: context.current) }

    func refresh() async { await context.refresh() }
}
