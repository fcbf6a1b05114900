import AnabranchCore
import AnabranchHistory
import AnabranchRealmFile
import CommandSupport
import Foundation
import NIOCore

/// The changes that a synced Realm file has not uploaded, on their way into an import.
struct PendingChanges {
    /// The limit of what the server accepts in one request, in bytes.
    static let bytesMax = 40 << 20
    private static let timeout = TimeAmount.minutes(10)

    private struct Change {
        var version: Int, digest: Checksum, time: ChangesetTime, changeset: [UInt8]
    }

    private struct Answer: Decodable {
        struct Loss: Decodable {
            var change: String, time: UInt64, reason: String, kept: String?, kept_time: UInt64?
        }

        var made: Int, repeated: Int, lost: [Loss], lost_count: Int
    }

    private var changes: [Change] = []
    private var arena = ChangesetArena()
    private var indices: [ChangesetIndex] = []
    /// The number of changes of which nothing was left once the device had downloaded what others wrote.
    private(set) var mergedCount = 0
    /// Changes that cannot be read.
    private(set) var problems: [String] = []
    /// The ident of the file.
    private(set) var ident: UInt64 = 0
    private let salt: UInt64

    /// - Throws: `RealmFileError` or `InputError` for changes that cannot be read, unless they are left out.
    init(of realm: RealmFile, _ file: String, salvages: Bool, outputLimit: Int?) throws {
        guard let state = try realm.syncState(salvages: salvages, outputLimit: outputLimit) else {
            throw InputError(description: "\(file): \(realm.reasonForNoUploads)")
        }
        salt = state.clientFileIdentSalt
        for pending in state.pending {
            do {
                try add(pending)
            } catch let error as ChangesetError where !salvages {
                throw InputError(
                    description: "\(file): change \(pending.version) cannot be decoded: \(error.reason). "
                        + "With --salvage the rest is read.")
            } catch let error as ChangesetError {
                problems.append("change \(pending.version) cannot be decoded: \(error.reason)")
            }
        }
    }

    private mutating func add(_ pending: RealmFileSyncState.PendingChangeset) throws {
        switch pending.content {
        case .unreadable(let error):
            problems.append("change \(pending.version) cannot be read: \(error)")
        case .changeset(let original, let rebased):
            let changeset = rebased ?? original
            guard !changeset.isEmpty else {
                mergedCount += 1
                return
            }
            let tag = OriginTag(timestamp: pending.time, ident: 0)
            indices.append(try arena.decode(changeset, version: UInt64(pending.version), tag: tag))
            let digest = Checksum(low: UInt64(pending.version), high: pending.time.rawValue).keyed([], original)
            changes.append(
                Change(
                    version: pending.version, digest: digest, time: pending.time,
                    changeset: changeset))
        }
    }

    /// The size of the changes as they are sent, in bytes: digits, and a little around them.
    private var byteCount: Int { changes.reduce(0) { $0 + 2 * $1.changeset.count + Self.changeBytes } }
    private static let changeBytes = 200

    /// - Parameter lineBytes: the size of the lines sent along with the changes.
    func check(_ lineBytes: Int, _ file: String) throws {
        guard byteCount + lineBytes > Self.bytesMax else { return }
        throw InputError(
            description: """
                \(file): what was never uploaded, with its objects, has more than \(Self.bytesMax) bytes. Without \
                --only-pending and --from-device the file is imported as it is
                """)
    }

    /// The objects that the changes are about.
    /// - Parameter ident: the ident of the file.
    mutating func objects(of ident: UInt64) -> Set<ObjectAddress> {
        self.ident = ident
        var adopted = arena, objects: Set<ObjectAddress> = []
        adopted.adopt(ClientFileID(rawValue: ident))
        for index in indices {
            for instruction in adopted.instructions(of: index) where !instruction.kind.isSchema {
                let (className, key) = adopted.primaryKey(of: instruction.object)
                objects.insert(ObjectAddress(adopted.bytes(of: className), key))
            }
        }
        return objects
    }

    // MARK: Sending

    /// Has the server make the changes again, and reports what becomes of them.
    /// - Parameters:
    ///   - lines: the classes of the file, and the objects that the changes are about.
    ///   - name: the file's name in messages.
    func send(_ lines: [[UInt8]], to path: String, of name: String, _ client: AdminClient?) async throws -> Tally {
        var tally = Tally(merged: mergedCount, unreadable: problems.count)
        for problem in problems { StandardError.write("\(name): left out: \(problem)\n") }
        guard let client, !changes.isEmpty else {
            tally.made = changes.count
            return tally
        }
        let body = body(lines)
        let query: [(String, String?)] = [("path", path), ("ident", "\(ident)")]
        let answer = try JSONDecoder().decode(
            Answer.self,
            from: try await client.post("/v1/import/changes", query, lines: body, timeout: Self.timeout))
        for loss in answer.lost {
            let date = ChangesetTime(rawValue: loss.time).date
            let kept = loss.kept.map { kept in
                ": \(kept)" + (loss.kept_time.map { " (\(ChangesetTime(rawValue: $0).date))" } ?? "")
            }
            StandardError.write("\(name): lost: \(loss.change) (\(date)): \(loss.reason)\(kept ?? "")\n")
        }
        if answer.lost_count > answer.lost.count {
            StandardError.write("\(name): lost: \(answer.lost_count - answer.lost.count) more\n")
        }
        (tally.made, tally.repeated, tally.lost) = (answer.made, answer.repeated, answer.lost_count)
        return tally
    }

    /// The fate of the changes.
    struct Tally: Encodable {
        var made = 0, repeated = 0, lost = 0
        var merged: Int, unreadable: Int

        var text: String {
            "\(counted(made, "change")) made, \(repeated) made before, \(lost) lost"
                + (merged > 0 ? "; nothing was left of \(merged)" : "")
        }
    }

    private func body(_ lines: [[UInt8]]) -> Data {
        var body = Data()
        for line in lines { body += line + [UInt8(ascii: "\n")] }
        for change in changes {
            // Equal changes of two files count as two.
            let name = Hex.encode(change.digest.keyed([ident, salt], []).bytes)
            let json: JSONValue = [
                "changeset": .string(Hex.encode(change.changeset)),
                "time": .integer(Int64(clamping: change.time.rawValue)),
                "version": .integer(Int64(change.version)),
            ]
            body += Data("{\"change\":\"\(name)\",\(json.encoded.dropFirst())\n".utf8)
        }
        return body
    }
}
