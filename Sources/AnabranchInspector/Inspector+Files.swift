import AnabranchCore
import AnabranchHistory
import AnabranchServer

/// The synced files.
extension Inspector {
    /// Some of the synced files: those whose paths contain a text, in the order of one of their figures.
    func files(_ query: PageQuery) async throws(PageError) -> String {
        let offset = Int(try query.number("offset", usual: 0, 0...UInt64(FileListing.countMax)))
        let limit = Int(try query.number("limit", usual: 100, 1...UInt64(Self.rowsMax)))
        let text = query["q"]?.lowercased(), isDescending = query["order"] == "desc"
        guard let order = FileOrder(rawValue: query["sort"] ?? "path") else {
            throw .badRequest("sort has to be \(FileOrder.allCases.map(\.rawValue).joined(separator: ", "))")
        }
        return try await reads.run { [listing] in
            let listed = try listing.listing()
            var found = listed.files
            if let text { found.removeAll { !$0.path.shown.lowercased().contains(text) } }
            if order == .path {
                if isDescending { found.reverse() }
            } else {
                found.sort { order.figure($0) < order.figure($1) }
                if isDescending { found.reverse() }
            }
            return jsonObject([
                "count": "\(found.count)", "looked": "\(listed.files.count)", "cut": "\(listed.isCut)",
                "offset": "\(offset)",
                "log_bytes": "\(found.reduce(0) { $0 &+ $1.head.logBytes })",
                "files": jsonArray(found.dropFirst(offset).prefix(limit).map(\.json)),
            ])
        }
    }

    /// The figures of a file, and its classes.
    func file(_ query: PageQuery) async throws(PageError) -> String {
        let path = try query.path()
        let figures = try await text(of: try await forward("GET /v1/file", "path=\(path.queryText)"))
        let classes = try await reads.read(path, at: try query.version("at")) { view in
            jsonObject([
                "version": "\(view.version)",
                "classes": jsonArray(view.state.classes.map { $0.json(in: view.state) }),
                "base_version": "\(view.head.baseVersion)",
            ])
        }
        return jsonObject(["file": figures, "schema": classes])
    }

    /// The versions of a file, and nothing else: pages ask for it every second.
    func head(_ query: PageQuery) async throws(PageError) -> String {
        let path = access.file(at: try query.path()), catalog = access.catalog
        return try await reads.run {
            guard let file = try catalog.file(path) else { throw PageError.noSuch("file") }
            return file.json
        }
    }
}

/// The orders of a list of files.
private enum FileOrder: String, CaseIterable {
    case path, version, size, clients

    func figure(_ file: CatalogFile) -> UInt64 {
        switch self {
        case .path: 0
        case .version: file.head.version.rawValue
        case .size: file.head.logBytes &+ file.archivedBytes
        case .clients: file.head.clientFileCount
        }
    }
}

extension CatalogFile {
    fileprivate var json: String {
        jsonObject([
            "path": jsonText(path.description), "version": "\(head.version)", "base_version": "\(head.baseVersion)",
            "log_bytes": "\(head.logBytes)", "archived_bytes": "\(archivedBytes)",
            "clients": "\(head.clientFileCount)",
        ])
    }
}

extension VirtualPath {
    /// The path as people read it.
    fileprivate var shown: String { String(decoding: bytes, as: UTF8.self) }

    /// The path in the query of an address.
    var queryText: String {
        description.utf8.map { byte in
            let isPlain =
                (0x61...0x7a).contains(byte) || (0x41...0x5a).contains(byte) || (0x30...0x39).contains(byte)
                || byte == 0x2d || byte == 0x2e || byte == 0x5f || byte == 0x7e
            return isPlain ? String(UnicodeScalar(byte)) : "%" + (byte < 16 ? "0" : "") + String(byte, radix: 16)
        }.joined()
    }
}
