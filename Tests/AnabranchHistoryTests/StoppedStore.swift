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

    /// What verification finds.
    static func damages(in directory: String) throws -> [StoreDamage] {
        var damages: [StoreDamage] = []
        try StoreVerification(directory: directory).checkFiles { damages += $0.damages }
        return damages
    }
}
