import AnabranchServer
import Foundation

/// The address of the admin interface. A server announces it in the data directory: the URL, and on a second line, if
/// it uses TLS, the path of its certificate. So the certificate needs neither a host name nor a trusted issuer.
struct AdminAddress {
    let url: String
    /// The path of a PEM file.
    var certificate: String?

    init(url: String, certificate: String? = nil) {
        self.url = url
        self.certificate = certificate.map { URL(fileURLWithPath: $0).path }
    }

    /// The address that a server has announced; nil if none has.
    init?(path: String) throws {
        guard FileManager.default.fileExists(atPath: path) else { return nil }
        let lines = try TextInput.lines(ofFile: path).filter { !$0.isEmpty }
        guard let url = lines.first else { return nil }
        self.init(url: url, certificate: lines.dropFirst().first)
    }

    func write(to path: String) throws {
        try PrivateFile.write([url, certificate].compactMap { $0 }.map { $0 + "\n" }.joined(), to: path)
    }
}
