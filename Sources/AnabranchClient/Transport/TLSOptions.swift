import AnabranchHTTP
import NIOCore
import NIOSSL
import Synchronization

/// The servers that a client trusts if a URL asks for TLS.
public struct TLSOptions: Sendable {
    /// The certificates that vouch for a server's.
    public enum Roots: Sendable {
        /// Those of the system.
        case system
        /// Those of the system, and these: one or more, in PEM.
        case systemAnd(pem: String)
        /// Only these, in PEM: those of a private authority, or the server's own.
        case only(pem: String)
    }

    /// The certificates that vouch for a server's.
    public var roots = Roots.system
    /// True if a certificate has to be vouched for, and to be for the server's name. If false, anybody between client
    /// and server can read everything: for development only.
    public var verifiesCertificate = true
    /// The name that the certificate has to be for; nil for the host of the URL. One for the address of the socket is
    /// valid as well.
    public var serverName: String?

    /// The certificates of the system.
    public init() {}
}

/// The TLS context for the connections of one client. Certificates are read when the first connection needs them.
final class ClientTLS: Sendable {
    private let options: TLSOptions
    private let context = Mutex<NIOSSLContext?>(nil)

    init(_ options: TLSOptions) { self.options = options }

    /// - Throws: `TransportError` if the options cannot be used.
    func handlers(for host: String) throws(TransportError) -> @Sendable () throws -> NIOSSLClientHandler {
        let name = WebURL.serverName(options.serverName ?? host)
        do {
            let context = try context.withLock { context in
                if let context { return context }
                let made = try makeContext()
                context = made
                return made
            }
            return { try NIOSSLClientHandler(context: context, serverHostname: name) }
        } catch {
            throw TransportError(.invalidRequest, "the certificates to be trusted cannot be read: they have to be PEM")
        }
    }

    private func makeContext() throws -> NIOSSLContext {
        var configuration = TLSConfiguration.makeClientConfiguration()
        configuration.minimumTLSVersion = .tlsv12
        configuration.shutdownTimeout = .seconds(1)
        switch options.roots {
        case .system: break
        case .systemAnd(let pem):
            configuration.additionalTrustRoots = [.certificates(try Self.certificates(in: pem))]
        case .only(let pem): configuration.trustRoots = .certificates(try Self.certificates(in: pem))
        }
        if !options.verifiesCertificate { configuration.certificateVerification = .none }
        return try NIOSSLContext(configuration: configuration)
    }

    private static func certificates(in pem: String) throws -> [NIOSSLCertificate] {
        let certificates = try NIOSSLCertificate.fromPEMBytes(Array(pem.utf8))
        guard !certificates.isEmpty else { throw NIOSSLError.failedToLoadCertificate }
        return certificates
    }
}
