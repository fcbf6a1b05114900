import AnabranchCore
import AnabranchHistory

/// The objects of an asymmetric class that clients have uploaded. All of them, and no others, have to wait for a
/// consumer.
struct UploadedEvents {
    private var keys: Set<PrimaryKey> = []

    /// - Parameter version: the client's version up to which the upload was integrated.
    mutating func record(_ upload: Upload, through version: ClientVersion) throws {
        for sent in upload.changesets where sent.cursor.clientVersion <= version {
            var arena = ChangesetArena()
            let index = try arena.decode(sent.changeset, version: 1, tag: OriginTag(timestamp: 1, ident: .server))
            let created = arena.touchedObjects(of: index).filter {
                $0.className == Array("Event".utf8) && $0.firstKind == .createObject
            }
            keys.formUnion(created.map(\.key))
        }
    }

    /// - Returns: the number of objects that wait.
    func check(_ file: FlexibleFile) throws -> Int {
        let found = try file.ingested(after: 0, countMax: .max, byteBudget: .max).map(\.key)
        guard Set(found) == keys, found.count == keys.count else {
            throw FlexibleRun.Failure(description: "\(found.count) events were taken in, and \(keys.count) uploaded")
        }
        return found.count
    }
}
