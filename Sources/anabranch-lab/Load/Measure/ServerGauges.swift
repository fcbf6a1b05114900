import Foundation
import NIOHTTP1
import NIOPosix

/// The metrics of a server that are levels (`Spec/Admin.md`, section 4).
enum ServerGauges {
    private static let names: Set<String> = ["anabranch_connections", "anabranch_websockets", "anabranch_sessions"]
    /// The name of the metric that counts the transactions of the store since the start.
    static let transactions = "anabranch_transactions_total"

    /// The address of a server's admin interface, and its token.
    struct Admin: Sendable {
        var host: String
        var port: Int
        var token: String
        var scheme: String

        /// Nil if the server with this data directory has not announced an admin interface.
        init?(dataDirectory: String) {
            let folder = URL(fileURLWithPath: dataDirectory)
            func firstLine(_ name: String) -> String? {
                let text = try? String(contentsOf: folder.appendingPathComponent(name), encoding: .utf8)
                return text?.split(whereSeparator: \.isNewline).first.map(String.init)
            }
            guard let address = firstLine("admin-address").flatMap(URLComponents.init(string:)),
                let token = firstLine("admin-token"), let host = address.host, let port = address.port
            else { return nil }
            (self.host, self.port, self.token, scheme) = (host, port, token, address.scheme ?? "")
        }

        /// The head of a request by the operator.
        func head(_ method: HTTPMethod, _ uri: String, bodyBytes: Int = 0) -> HTTPRequestHead {
            HTTPRequestHead(
                version: .http1_1, method: method, uri: uri,
                headers: [
                    "Host": "\(host):\(port)", "Authorization": "Bearer \(token)", "Content-Length": "\(bodyBytes)",
                    "Connection": "close",
                ])
        }
    }

    /// The values; nil if the server with this data directory has no admin interface, or does not answer.
    ///
    /// - Throws: `LoadError` if it will never answer: its admin interface uses TLS.
    static func read(
        dataDirectory: String, names: Set<String> = names
    ) async throws(LoadError) -> [String: Double]? {
        guard let admin = Admin(dataDirectory: dataDirectory) else { return nil }
        guard admin.scheme == "http" else {
            throw LoadError("no gauges: the server's admin interface speaks TLS")
        }
        let answer = try? await HTTPRequests.exchange(
            admin.head(.GET, "/metrics"), Data(), with: admin.host, admin.port,
            on: .singletonMultiThreadedEventLoopGroup)
        guard let answer, answer.status == .ok else { return nil }
        return values(in: String(decoding: answer.body, as: UTF8.self), names: names)
    }

    /// The values in the text format of Prometheus.
    static func values(in text: String, names: Set<String> = names) -> [String: Double] {
        var values: [String: Double] = [:]
        for line in text.split(separator: "\n") {
            let parts = line.split(separator: " ")
            guard parts.count == 2, names.contains(String(parts[0])) else { continue }
            values[String(parts[0])] = Double(parts[1])
        }
        return values
    }
}
