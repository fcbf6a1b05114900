import AnabranchCore
import Foundation
public import Logging
import NIOSSL

/// A certificate and its key, in PEM, for TLS 1.2 and 1.3. Read again when they change; connections that are open keep
/// what they began with.
public final class TLSFiles: Sendable {
    private struct Files: Sendable {
        let context: NIOSSLContext
        let certificate: NIOSSLCertificate
        /// The first second since 1970 at which one of the certificates is no longer valid.
        let end: Int?
    }

    private let files: WatchedFile<Files>

    /// - Parameters:
    ///   - certificatePath: the server's certificate, followed by those that vouch for it.
    ///   - keyPath: the private key of the certificate.
    /// - Throws: if they cannot be read, or do not belong together.
    public init(certificatePath: String, keyPath: String, logger: Logger) async throws {
        files = try await WatchedFile(certificatePath, keyPath, logger: logger) {
            let chain = try NIOSSLCertificate.fromPEMFile(certificatePath)
            guard let certificate = chain.first else { throw NIOSSLError.failedToLoadCertificate }
            let key = try NIOSSLPrivateKey(file: keyPath, format: .pem)
            var configuration = TLSConfiguration.makeServerConfiguration(
                certificateChain: chain.map { .certificate($0) }, privateKey: .privateKey(key))
            configuration.minimumTLSVersion = .tlsv12
            if let notice = TLSFiles.notice(certificate) {
                logger.warning("clients refuse the certificate", metadata: ["reason": "\(notice)"])
            }
            return Files(
                context: try NIOSSLContext(configuration: configuration), certificate: certificate,
                end: chain.map { Int($0.notValidAfter) + 1 }.min())
        }
    }

    /// The reason why clients refuse the certificate now, by the dates in it; nil if there is none.
    package var notice: String? { Self.notice(files.current.certificate) }

    private static func notice(_ certificate: NIOSSLCertificate) -> String? {
        let now = Int64(Date().timeIntervalSince1970)
        let (begin, end) = (Int64(certificate.notValidBefore), Int64(certificate.notValidAfter))
        guard now < begin || now > end else { return nil }
        let time = Timestamp(seconds: now < begin ? begin : end, nanoseconds: 0).rfc3339 ?? "another year"
        return now < begin ? "it is not valid before \(time)" : "it expired at \(time)"
    }

    /// Makes the handler that encrypts a new connection.
    func makeHandler() -> NIOSSLServerHandler { NIOSSLServerHandler(context: files.current.context) }

    /// The first second since 1970 at which clients refuse the certificate, or one that vouches for it.
    var end: Int? { files.current.end }

    func refresh() async { await files.refresh() }
}
