public import AnabranchClient
import AnabranchOverTheAir
import AnabranchPropertyList

/// The URL of a server to which a device sends its messages, and the user for whom it does so.
public struct PropertyListService: Sendable {
    /// The id or the e-mail address of the user.
    public let userID: String
    private let url: String
    private let sender: any HTTPSender
    /// A token for the next request; a new one, if the last was refused.
    private let token: @Sendable (_ isRefused: Bool) async throws -> String

    /// How often a message is sent whose answer has not come.
    private static let attemptsMax = 3

    /// A server with a token of the app that stays.
    /// - Parameters:
    ///   - url: as `https://sync.example.com/ota`.
    ///   - userID: the id or the e-mail address of the user whose token it is.
    public init(url: String, userID: String, token: String, sender: any HTTPSender = NIOHTTPSender()) {
        self.init(url, userID, sender) { _ in token }
    }

    /// The server of a user who is logged in to an app.
    /// - Parameters:
    ///   - url: as `https://sync.example.com/ota`.
    ///   - user: the id of the user.
    public init(url: String, _ app: AppClient, user: String, sender: any HTTPSender = NIOHTTPSender()) {
        self.init(url, user, sender) { isRefused in
            isRefused ? try await app.refreshAccessToken(of: user) : try await app.accessToken(of: user)
        }
    }

    private init(
        _ url: String, _ userID: String, _ sender: any HTTPSender,
        token: @escaping @Sendable (Bool) async throws -> String
    ) {
        var sender = sender
        if var http = sender as? NIOHTTPSender {
            http.answerBytesMax = max(http.answerBytesMax, PropertyListLimits.answers.bytesMax)
            sender = http
        }
        (self.url, self.userID, self.sender, self.token) = (url, userID, sender, token)
    }

    /// Sends a message, again if its answer does not come: the server knows a message by its bytes.
    /// - Parameter cookie: that of the session, which the first answer sets.
    func answer(to message: [UInt8], isBinary: Bool, cookie: inout String?) async throws -> [UInt8] {
        var attempts = 0, isRefused = false
        while true {
            attempts += 1
            let type = isBinary ? "application/octet-stream" : "text/xml"
            var call = HTTPCall(method: "POST", url: url, headers: [("Content-Type", type)], body: message)
            let answer: HTTPAnswer
            do {
                call.headers.append(("Authorization", "Bearer \(try await token(isRefused))"))
                if let cookie { call.headers.append(("Cookie", cookie)) }
                answer = try await sender.send(call)
            } catch let error as AppError where error.code == .loggedOut || error.code == .noSuchUser {
                throw DeviceError(.unauthorized, error.reason)
            } catch let error as AppError {
                guard error.code == .noAnswer, attempts < Self.attemptsMax else {
                    throw DeviceError(.offline, error.reason)
                }
                continue
            }
            switch answer.status {
            case 200:
                let set = answer.headers.first { $0.name.lowercased() == "set-cookie" }?.value
                cookie = set.flatMap { $0.split(separator: ";").first.map(String.init) } ?? cookie
                return answer.body
            case 401 where !isRefused: isRefused = true
            case 401: throw DeviceError(.unauthorized, "the server does not accept the log-in")
            case 404: throw DeviceError(.refused, "\(url): the server has no devices there")
            case 503: throw DeviceError(.offline, "the server is busy, or its store is in trouble")
            case let status:
                let text = String(decoding: answer.body.prefix(200), as: UTF8.self)
                throw DeviceError(.refused, "\(url): the server answers with status \(status): \(text)")
            }
        }
    }
}
