import Foundation
import NIOHTTP1
import NIOPosix

/// What a server says of itself: those of its metrics that are levels (`Spec/Admin.md`, section 4).
enum ServerGauges {
    private static let names: Set<String> = ["anabranch_connections", "anabranch_websockets", "anabranch_sessions"]

    /// Nil if the server with this data directory has no admin interface, or does not answer.
    ///
    /// - Throws: `LoadError` if it will never answer: its admin interface speaks TLS.
    static func read(dataDirectory: String) async throws(LoadError) -> [String: Double]? {
        let folder = URL(fileURLWithPath: dataDirectory)
        func firstLine(_ name: String) -> String? {
            let text = try? String(contentsOf: folder.appendingPathComponent(name), encoding: .utf8)
            return text?.split(whereSeparator: \.isNewline).first.map(String.init)
        }
        guard let address = firstLine("admin-address").flatMap(URLComponents.init(string:)),
            let token = firstLine("admin-token"), let host = address.host, let port = address.port
        else { return nil }
        guard address.scheme == "http" else {
            throw LoadError("no gauges: the server's admin interface speaks TLS")
        }
        let head = HTTPRequestHead(
            version: .http1_1, method: .GET, uri: "/metrics",
            headers: ["Host": "\(host):\(port)", "Authorization": "Bearer \(token)", "Connection": "close"])
        let answer = try? await HTTPRequests.exchange(
            head, Data(), with: host, port, on: .singletonMultiThreadedEventLoopGroup)
        guard let answer, answer.status == .ok else { return nil }
        return values(in: String(decoding: answer.body, as: UTF8.self))
    }

    /// Of the text format of Prometheus.
    static func values(in text: String) -> [String: Double] {
        var values: [String: Double] = [:]
        for line in text.split(separator: "\n") {
            let parts = line.split(separator: " ")
            guard parts.count == 2, names.contains(String(parts[0])) else { continue }
            values[String(parts[0])] = Double(parts[1])
        }
        return values
    }
}
