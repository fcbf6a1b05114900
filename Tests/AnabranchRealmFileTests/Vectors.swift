import AnabranchRealmFile
import AnabranchTesting
import Foundation

/// Files that the reference wrote, and files that were damaged on purpose (`Tests/Vectors/RealmFiles`).
enum Vectors {
    static let folder = URL(fileURLWithPath: #filePath).resolvingSymlinksInPath()
        .deletingLastPathComponent().deletingLastPathComponent().appendingPathComponent("Vectors/RealmFiles").path

    /// The key of those that are encrypted.
    static let key = Array("0123456789abcdefghijklmnopqrstuvABCDEFGHIJKLMNOPQRSTUVWXYZ012345".utf8)

    static func bytes(_ name: String) throws -> [UInt8] {
        Array(try GzipFile.contents(of: "\(folder)/\(name).realm.gz"))
    }

    /// A file of 1 KB.
    static func damaged(_ name: String) throws -> [UInt8] {
        Array(try Data(contentsOf: URL(fileURLWithPath: "\(folder)/damaged/\(name).realm")))
    }

    /// The error for bytes that cannot be read; nil if they can.
    static func refusal(of bytes: [UInt8], key: [UInt8]? = nil) throws -> RealmFileError? {
        do {
            let file = try RealmFile(RealmFileBytes(bytes), key: key)
            _ = try file.export { _ in }
            _ = try file.syncState()
            return nil
        } catch let error as RealmFileError {
            return error
        }
    }

    /// The lines of a file, and what is said of it.
    static func export(
        _ bytes: [UInt8], key: [UInt8]? = nil, salvages: Bool = false, outputLimit: Int? = nil
    ) throws -> (lines: [String], report: RealmFile.Report) {
        var lines: [String] = []
        let report = try RealmFile(RealmFileBytes(bytes), key: key)
            .export(salvages: salvages, outputLimit: outputLimit) { lines.append(String(decoding: $0, as: UTF8.self)) }
        return (lines, report)
    }
}
