import AnabranchHistory
import Foundation
import GRDB
import Testing

@testable import AnabranchSQLite

/// The data directory of a store that nobody has open.
enum StoppedStore {
    /// Changes rows of the first shard.
    static func change(_ directory: String, _ sql: String) throws {
        let queue = try DatabaseQueue(path: directory + "/shard-00.sqlite")
        try queue.write { db in
            try db.execute(sql: sql)
            #expect(db.changesCount > 0, "\(sql)")
        }
        try queue.close()
    }

    /// The damage that verification finds in the files.
    static func damages(in directory: String) throws -> [StoreDamage] {
        var damages: [StoreDamage] = []
        try StoreVerification(directory: directory).checkFiles { damages += $0.damages }
        return damages
    }

    /// The damage that it finds in the databases and the files.
    static func allDamages(in directory: String) throws -> [StoreDamage] {
        let verification = try StoreVerification(directory: directory)
        var damages = try verification.checkDatabase()
        try verification.checkFiles { damages += $0.damages }
        return damages
    }

    /// The files that a crash at this moment would leave of a store with one shard.
    static func copy(of directory: String, truncatingLogTo size: Int? = nil) throws -> TemporaryDirectory {
        let copy = try TemporaryDirectory(copyingManifestOf: directory)
        for name in ["shard-00.sqlite", "shard-00.sqlite-wal"] {
            var content = try Data(contentsOf: URL(fileURLWithPath: directory + "/" + name))
            if let size, name.hasSuffix("wal") { content = content.prefix(size) }
            try content.write(to: URL(fileURLWithPath: copy.path + "/" + name))
        }
        return copy
    }
}
