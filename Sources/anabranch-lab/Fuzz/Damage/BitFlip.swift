import AnabranchTesting
import Foundation

/// One bit of a store's files that is inverted.
struct BitFlip: Sendable, Equatable, CustomStringConvertible {
    /// The path of the database or manifest, relative to the data directory.
    var file: String
    var offset: Int
    /// From 0 to 7.
    var bit: Int

    /// One bit in this many is in a file that is picked without regard to its size: otherwise small files would never
    /// be.
    private static let sizelessShare = 8

    /// A bit that the seed picks among all of a data directory's databases, write-ahead logs included, and manifests.
    /// The databases of the accounts are left out, since clients get nothing from them.
    ///
    /// - Throws: `LoadError` if there is none.
    init(seed: UInt64, in directory: URL) throws {
        var random = SeededRandom(scrambling: seed)
        var files = try Self.files(in: directory).filter { $0.size > 0 }
        guard !files.isEmpty else { throw LoadError("there is no database in \(directory.path)") }
        if random.below(Self.sizelessShare) == 0 { files = [files[random.below(files.count)]] }
        (file, offset) = ("", random.below(files.reduce(0) { $0 + $1.size }))
        for (name, size) in files {
            file = name
            if offset < size { break }
            offset -= size
        }
        bit = random.below(8)
    }

    private static func files(in directory: URL) throws -> [(name: String, size: Int)] {
        let names = try FileManager.default.subpathsOfDirectory(atPath: directory.path).filter { path in
            let name = path.split(separator: "/").last ?? ""
            return (name.contains(".sqlite") || name == "manifest.json") && !name.hasPrefix("accounts")
                && !name.hasSuffix("-shm")
        }
        return try names.sorted().map { name in
            let path = directory.appendingPathComponent(name).path
            return (name, try FileManager.default.attributesOfItem(atPath: path)[.size] as? Int ?? 0)
        }
    }

    /// Flips the bit in a copy of the data directory.
    func apply(in directory: URL) throws {
        let handle = try FileHandle(forUpdating: directory.appendingPathComponent(file))
        defer { try? handle.close() }
        try handle.seek(toOffset: UInt64(offset))
        guard let byte = try handle.read(upToCount: 1)?.first else { throw LoadError("\(file) is too short") }
        try handle.seek(toOffset: UInt64(offset))
        try handle.write(contentsOf: Data([byte ^ 1 << UInt8(bit)]))
    }

    var description: String { "bit \(bit) of byte \(offset) of \(file)" }
}
