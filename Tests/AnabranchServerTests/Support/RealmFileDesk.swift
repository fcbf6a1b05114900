import AnabranchTesting
import Foundation

/// A folder with Realm files that the reference wrote, their key, and the command in it.
struct RealmFileDesk {
    static let vectors = URL(fileURLWithPath: #filePath).resolvingSymlinksInPath()
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        .appendingPathComponent("Vectors/RealmFiles").path

    let folder: String

    static func with(_ body: (RealmFileDesk) async throws -> Void) async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("desk-\(UUID().uuidString)").path
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: folder) }
        try Data("0123456789abcdefghijklmnopqrstuvABCDEFGHIJKLMNOPQRSTUVWXYZ012345".utf8)
            .write(to: URL(fileURLWithPath: folder + "/key"))
        try await body(RealmFileDesk(folder: folder))
    }

    /// Without the numbers that stand for the file in keys.
    static func withoutIdents(_ lines: String) -> String {
        lines.replacing(/"gk":"[0-9a-f]+-/) { _ in "\"gk\":\"-" }
    }

    func run(_ arguments: String...) async throws -> AdminCommandTests.Output { try await run(arguments) }

    func run(_ arguments: [String]) async throws -> AdminCommandTests.Output {
        try await AdminCommandTests.run(arguments + ["--data", folder + "/data"])
    }

    /// - Returns: the path of a file of the vectors.
    func file(_ name: String) throws -> String {
        let path = "\(folder)/\(name).realm"
        try GzipFile.contents(of: "\(Self.vectors)/\(name).realm.gz").write(to: URL(fileURLWithPath: path))
        return path
    }

    func export(_ path: String) async throws -> String { try await run("export", "--path", path).text }
}
