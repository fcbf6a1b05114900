import AnabranchCore
import AnabranchProtocol
import AnabranchTesting

/// Changesets for tests.
enum Changesets {
    /// The changesets that one client of the transcript `two-clients` uploaded, in order.
    static func ofClient(_ ident: UInt64) throws -> [[UInt8]] {
        var idents: [Int: UInt64] = [:]
        var result: [ClientVersion: [UInt8]] = [:]
        for line in try Transcript("two-clients").lines where line.kind == "binary" && line.isFromClient {
            if line.message.kind == "ident" { idents[line.connection] = line.message.numbers[1] }
            guard line.message.kind == "upload", idents[line.connection] == ident,
                case .upload(_, let upload) = try ClientMessageCodec().decode(line.message.bytes)
            else { continue }
            for entry in upload.upload.changesets { result[entry.cursor.clientVersion] = entry.changeset }
        }
        return result.sorted { $0.key < $1.key }.map(\.value)
    }

    /// The changesets of a client whose transactions make sense whatever it knows of others: all write to one object,
    /// and each to objects of its own.
    static func independent(of client: Int, count: Int) throws -> [[UInt8]] {
        var graph = ObjectGraph()
        var random = SeededRandom(seed: UInt64(client))
        return try (0..<count).map { number in
            try graph.write(as: ClientFileID(client)) { tx in
                try tx.addClass("Note", key: "_id", .int)
                try tx.addColumn("title", .string, to: "Note")
                try tx.addColumn("count", .int, to: "Note")
                try tx.addColumn("tags", .string, collection: .set, to: "Note")
                try tx.addColumn("lines", .string, collection: .list, to: "Note")
                let shared = try tx.create("Note", key: 0)
                shared["title"] = .string(Array("by \(client), \(number)".utf8))
                try shared.add(Int64(client), to: "count")
                try shared.set("tags").insert(.string([UInt8(ascii: "a") + UInt8(random.number(0...5))]))
                let own = try tx.create("Note", key: .int(Int64(client * 100 + number / 4)))
                let lines = try own.list("lines")
                try lines.insert(.string([UInt8(number)]), at: Int(random.number(0...UInt64(lines.count))))
                if number % 4 == 3, random.isOne(in: 2) { try tx.delete(own) }
            }.changeset
        }
    }

    /// Makes an embedded class, and carries this many bytes that no compression shrinks.
    static func large(_ byteCount: Int, seed: UInt64) -> [UInt8] {
        var random = SeededRandom(seed: seed)
        var result: [UInt8] = [0x3f, 0, 1, UInt8(ascii: "A")]
        var index: UInt8 = 1, rest = byteCount
        while rest > 0 {
            let count = min(rest, 1 << 22)
            result += [0x3f, index] + number(count)
            for _ in 0..<(count + 7) / 8 {
                let word = random.next()
                for shift in stride(from: 0, to: 64, by: 8) {
                    result.append(UInt8(truncatingIfNeeded: word >> UInt64(shift)))
                }
            }
            result.removeLast((count + 7) / 8 * 8 - count)
            (index, rest) = (index + 1, rest - count)
        }
        return result + [0, 0, 1]
    }

    /// A number as changesets write it: seven bits a byte, six in the last one.
    private static func number(_ value: Int) -> [UInt8] {
        var rest = value
        var bytes: [UInt8] = []
        while rest >> 6 != 0 {
            bytes.append(0x80 | UInt8(rest & 0x7f))
            rest >>= 7
        }
        return bytes + [UInt8(rest)]
    }
}
