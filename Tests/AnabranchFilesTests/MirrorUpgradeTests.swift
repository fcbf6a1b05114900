import Foundation
import GRDB
import Testing

@testable import AnabranchFiles

/// Mirrors that were begun by an earlier release.
@Suite(.timeLimit(.minutes(30))) struct MirrorUpgradeTests {
    /// Its rows do not say when files and folders were made.
    @Test func whatBothSidesHaveDoneSinceCountsOnce() async throws {
        try await FilesRig.run { rig in
            let device = try await rig.device("one"), folder = device.folder.appendingPathComponent("mirrored")
            let rows = device.folder.appendingPathComponent("rows").path
            func mirror() async throws {
                let mirror = try FolderMirror(device.space, folder: folder, database: rows)
                while try await mirror.compare() > 0 {}
            }
            for name in ["/f", "/g"] { try await device.space.createFolder(SpacePath(name)) }
            for name in ["/deleted", "/edited", "/moved", "/f/a"] { try await device.put(name, "1") }
            try await mirror()
            let database = try DatabaseQueue(path: rows)
            try await database.write { db in
                for name in ["born", "chunks"] { try db.execute(sql: "ALTER TABLE mirrored DROP COLUMN \(name)") }
                try db.execute(sql: "DROP TABLE begun")
            }
            try database.close()
            let moved = try device.space.info(SpacePath("/moved")).key
            for name in ["/deleted", "/f"] { try await device.space.delete(SpacePath(name)) }
            try await device.put("/edited", "2")
            rename(folder.path + "/moved", folder.path + "/there")
            try await mirror()
            #expect(try await device.tree() == ["/edited": "2", "/there": "1", "/g/": ""])
            #expect(try device.space.info(SpacePath("/there")).key == moved)
            let paths = try FileManager.default.subpathsOfDirectory(atPath: folder.path)
            #expect(paths.sorted() == ["edited", "g", "there"])
            #expect(try String(contentsOfFile: folder.path + "/edited", encoding: .utf8) == "2")
            // From now on they do, where the disk knows it.
            let undated = try await DatabaseQueue(path: rows).read { db in
                try Int.fetchOne(db, sql: "SELECT count(*) FROM mirrored WHERE born = 0")
            }
            #expect(undated == (FolderMark.birthTime(of: folder.path) == 0 ? 3 : 0))
            try await device.close()
        }
    }
}
