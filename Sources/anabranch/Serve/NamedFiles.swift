import AnabranchRules
import AnabranchServer
import CommandSupport
import Foundation
import Logging
import NIOSSL

/// The files that a configuration names, read as the server reads them.
enum NamedFiles {
    /// Finds out what is wrong with them, and what has no effect in rules and exported apps: a line for each. Says in
    /// words what the rules mean.
    static func check(
        _ configuration: Configuration
    ) async -> (problems: [String], notices: [String], rules: [String]) {
        let logger = Logger(label: "anabranch", factory: { _ in SwiftLogNoOpLogHandler() })
        var problems: [String] = [], notices: [String] = [], rules: [String] = []
        func check(_ setting: String, _ read: () async throws -> Void) async {
            do { try await read() } catch {
                problems += "\(error)".split(separator: "\n").map { "\(setting): \($0)" }
            }
        }
        if case .file(let path) = configuration.rules {
            await check("rules") {
                let authorizer = try await RuleFileAuthorizer(path: path, logger: logger)
                notices += authorizer.notices.map { "rules: \($0)" }
                rules = authorizer.words
                guard !configuration.isDevelopment, !configuration.apps.isEmpty else { return }
                for (rule, app) in authorizer.apps where configuration.apps[app] == nil {
                    let known = configuration.apps.keys.sorted()
                    notices.append("rules: rule \(rule): app: \(KnownWords.unknown("app", app, of: known))")
                }
            }
        }
        if configuration.tlsKey != nil {
            await check("tls-certificate") {
                guard let notice = try await tls(configuration, logger)?.notice else { return }
                notices.append("tls-certificate: clients refuse \(configuration.tlsCertificate ?? ""): \(notice)")
            }
        }
        for (app, path) in configuration.exportPaths.sorted(by: { $0.key < $1.key }) {
            await check("apps: \(app): app-config") {
                let exports = try await AppExports(directories: [app: path], logger: logger)
                guard let export = exports.export(of: app) else { return }
                rules += export.rules.words.map { "\(app): \($0)" }
                notices += export.notices.map { "apps: \(app): \($0)" }
                if let id = export.appID, id != app {
                    notices.append(
                        "apps: \(app): app-config: it is of the app '\(id)': clients have to ask for '\(app)'")
                }
            }
        }
        for (app, settings) in configuration.apps.sorted(by: { $0.key < $1.key }) {
            guard let issuer = settings.issuer, !issuer.jwks.isEmpty else { continue }
            await check("apps: \(app): issuer") {
                guard let notice = try await issuer.check(logger: logger) else { return }
                notices.append("apps: \(app): issuer: nobody can log in with its tokens now: \(notice)")
            }
        }
        for (app, settings) in configuration.emails.sorted(by: { $0.key < $1.key }) {
            await check("apps: \(app): email") { try settings.checkFiles() }
        }
        await check("data") {
            if let notice = try noticeOfFolder(configuration.data) { notices.append("data: \(notice)") }
        }
        // Without the setting, or without the file, the server makes one.
        if let path = configuration.adminTokenFile, FileManager.default.fileExists(atPath: path) {
            await check("admin-token-file") { _ = try AdminToken(path: path, logger: logger) }
        }
        return (problems, notices, rules)
    }

    /// The reason why this user cannot write to a folder, or make it; nil if that is possible.
    private static func noticeOfFolder(_ path: String) throws -> String? {
        var place = URL(fileURLWithPath: path), isFolder: ObjCBool = false
        while !FileManager.default.fileExists(atPath: place.path, isDirectory: &isFolder), place.path != "/" {
            place.deleteLastPathComponent()
        }
        guard isFolder.boolValue else { throw InputError(description: "\(place.path): is not a folder") }
        return FileManager.default.isWritableFile(atPath: place.path)
            ? nil : "\(place.path): this user may not write there; the server's has to"
    }

    /// Certificate and key; nil if the configuration has none.
    static func tls(_ configuration: Configuration, _ logger: Logger) async throws -> TLSFiles? {
        guard let certificate = configuration.tlsCertificate, let key = configuration.tlsKey else { return nil }
        func unusable(_ reason: String) -> InputError {
            InputError(description: "certificate \(certificate) and key \(key) cannot be used: \(reason)")
        }
        do {
            return try await TLSFiles(certificatePath: certificate, keyPath: key, logger: logger)
        } catch let error as NIOSSLError where error == .failedToLoadCertificate {
            throw unusable("\(certificate) holds no certificate in PEM")
        } catch let error as NIOSSLError where error == .failedToLoadPrivateKey {
            throw unusable(reason(ofRefusedKey: key))
        } catch is NIOSSLError {
            throw unusable("they do not belong together, or are not in PEM")
        } catch is BoringSSLError {
            throw unusable("they do not belong together, or are not in PEM")
        } catch {
            throw unusable("\(error)")
        }
    }

    /// The reason why a key cannot be used: one of another certificate is refused like what is not a key at all.
    private static func reason(ofRefusedKey path: String) -> String {
        if (try? NIOSSLPrivateKey(file: path, format: .pem)) != nil {
            return "they do not belong together: the key is that of another certificate"
        }
        return (try? TextInput.text(ofFile: path))?.contains("ENCRYPTED") == true
            ? "\(path) is encrypted: `openssl pkey -in \(path) -out plain.pem` writes it without its password"
            : "\(path) holds no private key in PEM"
    }
}

extension EmailSettings {
    fileprivate func checkFiles() throws {
        switch way {
        case .command(let words):
            guard FileManager.default.isExecutableFile(atPath: words[0]) else {
                throw EmailError("command: \(words[0]) is not a program that can be started")
            }
        case .smtp(let server):
            if let path = server.passwordFile { _ = try Mailer.password(inFile: path) }
            if let path = server.authority, (try? NIOSSLCertificate.fromPEMFile(path).isEmpty) ?? true {
                throw EmailError("ca: \(path) holds no certificate in PEM")
            }
        }
    }
}
