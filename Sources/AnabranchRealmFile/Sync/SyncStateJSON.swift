package import AnabranchCore

extension RealmFileSyncState {
    /// The state as JSON. Salts are strings, since not every reader of JSON can hold all integers of 64 bits.
    package var json: JSONValue {
        [
            "client_file_ident": Self.integer(clientFileIdent),
            "client_file_ident_salt": .string("\(clientFileIdentSalt)"),
            "latest_server_version": Self.integer(latestServerVersion),
            "latest_server_version_salt": .string("\(latestServerVersionSalt)"),
            "download": [
                "server_version": Self.integer(downloadedServerVersion),
                "client_version": Self.integer(downloadedClientVersion),
            ],
            "upload": [
                "client_version": Self.integer(uploadedClientVersion),
                "server_version": Self.integer(uploadedServerVersion),
            ],
            "history_base": .integer(Int64(historyBase)), "history_size": .integer(Int64(historyCount)),
            "pending": .array(pending.map(\.json)),
        ]
    }

    fileprivate static func integer(_ value: UInt64) -> JSONValue { .integer(Int64(clamping: value)) }
}

extension RealmFileSyncState.PendingChangeset {
    /// The change as JSON, with its changesets as hexadecimal digits.
    package var json: JSONValue {
        var members: [String: JSONValue] = [
            "version": .integer(Int64(version)), "server_version": .integer(serverVersion),
            "origin_timestamp": RealmFileSyncState.integer(time.rawValue),
        ]
        switch content {
        case .changeset(let bytes, let rebased):
            members["changeset"] = .string(Hex.encode(bytes))
            if let rebased { members["rebased"] = .string(Hex.encode(rebased)) }
        case .unreadable(let error): members["unreadable"] = .string("\(error)")
        }
        return .object(members)
    }
}
