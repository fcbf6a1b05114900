import AnabranchTesting
import Foundation

/// One bit of a store's databases that turns into the other one.
struct BitFlip: Sendable, Equatable, CustomStringConvertible {
    /// The database, from the data directory on.
    var database: String
    var offset: Int
    /// From 0 to 7.
    var bit: Int

    /// A bit that the seed picks among all of a data directory's databases, write-ahead logs included. Those of the
    /// accounts have nothing that clients are given.
    ///
    /// - Throws: `LoadError` if there is none.
    init(seed: UInt64, in directory: URL) throws {
        var random = SeededRandom(scrambling: seed)
        let databases = try Self.databases(in: directory)
        let size = databases.reduce(0) { $0 + $1.size }
        guard size > 0 else { throw LoadError("there is no database in \(directory.path)") }
        (database, offset) = ("", random.below(size))
        for (name, size) in databases {
            database = name
            if offset < size { break }
            offset -= size
        }
        bit = random.below(8)
    }

    private static func databases(in directory: URL) throws -> [(name: String, size: Int)] {
        let names = try FileManager.default.subpathsOfDirectory(atPath: directory.path).filter { path in
            let name = path.split(separator: "/").last ?? ""
            return name.contains(".sqlite") && !name.hasPrefix("accounts") && !name.hasSuffix("-shm")
        }
        return try names.sorted().map { name in
            let path = directory.appendingPathComponent(name).path
            return (name, try FileManager.default.attributesOfItem(atPath: path)[.size] as? Int ?? 0)
        }
    }

    /// Flips the bit in a copy of the data directory.
    func apply(in directory: URL) throws {
        let file = try FileHandle(forUpdating: directory.appendingPathComponent(database))
        defer { try? file.close() }
        try file.seek(toOffset: UInt64(offset))
        guard let byte = try file.read(upToCount: 1)?.first else { throw LoadError("\(database) is too short") }
        try file.seek(toOffset: UInt64(offset))
        try file.write(contentsOf: Data([byte ^ 1 << UInt8(bit)]))
    }

    var description: String { "bit \(bit) of byte \(offset) of \(database)" }
}
