import AnabranchCore
import AnabranchServer
import Foundation
import Logging
import Synchronization

/// The audit trail of a data directory: files with a line of JSON for each action that changes permissions or removes
/// something (`Spec/Admin.md`, section 7).
final class AuditTrail: Sendable {
    static let fileName = "audit.log"
    /// The file of what the server lets expire by itself. There can be so much of it at once that in the other one
    /// nothing else would be left.
    static let expiredFileName = "expired.log"
    /// The limit of each file, in bytes: beyond it the file gets another name that ends in `.1`, in place of an older
    /// one, and a new one begins.
    static let bytesMax = 16 << 20
    /// Stands for who does what the server does by itself.
    fileprivate static let server = "server"

    private let directory: URL
    private let bytesMax: Int
    private let writing = Mutex(())

    init(inDirectory directory: String, bytesMax: Int = AuditTrail.bytesMax) {
        self.directory = URL(fileURLWithPath: directory)
        self.bytesMax = bytesMax
    }

    /// Adds a line.
    /// - Parameter details: further members of the line.
    func record(_ what: String, by who: String, _ details: [String: String], at date: Date = Date()) {
        var members = details.mapValues { JSONValue.string($0) }
        members["what"] = .string(what)
        members["by"] = .string(who)
        members["time"] = .string(date.formatted(Date.ISO8601FormatStyle(includingFractionalSeconds: true)))
        let line = Data((JSONValue.object(members).encoded + "\n").utf8)
        let name = what == "expire" && who == Self.server ? Self.expiredFileName : Self.fileName
        writing.withLock { _ in
            do { try append(line, to: directory.appendingPathComponent(name).path) } catch {
                let complaint = "Error: the audit trail cannot be written: \(error); it lacks \(what) by \(who)\n"
                FileHandle.standardError.write(Data(complaint.utf8))
            }
        }
    }

    private func append(_ line: Data, to path: String) throws {
        let descriptor = open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw InputError(description: "\(path): \(String(cString: strerror(errno)))") }
        let file = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        try file.write(contentsOf: line)
        if try file.offset() >= UInt64(bytesMax) { rename(path, path + ".1") }
    }
}

/// Passes entries on to a log, and those that are audited to the trail as well, whatever the level of the log is.
struct AuditHandler: LogHandler {
    private var log: any LogHandler
    private let trail: AuditTrail

    init(_ log: any LogHandler, _ trail: AuditTrail) { (self.log, self.trail) = (log, trail) }

    /// The level of the log, but no higher than `notice`, so that entries come which may be audited.
    var logLevel: Logger.Level {
        get { min(log.logLevel, .notice) }
        set { log.logLevel = newValue }
    }

    var metadata: Logger.Metadata {
        get { log.metadata }
        set { log.metadata = newValue }
    }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { log[metadataKey: key] }
        set { log[metadataKey: key] = newValue }
    }

    func log(event: LogEvent) {
        if event.level >= log.logLevel { log.log(event: event) }
        var details = metadata.merging(event.metadata ?? [:]) { $1 }.mapValues { "\($0)" }
        guard let what = details.removeValue(forKey: "audit") else { return }
        trail.record(what, by: details.removeValue(forKey: "by") ?? AuditTrail.server, details)
    }
}
