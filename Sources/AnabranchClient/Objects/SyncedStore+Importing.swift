import AnabranchRealmFile

extension SyncedStore {
    /// Opens a store that a Realm file becomes, once. For applications that leave Realm.
    ///
    ///     let store = try await SyncedStore("tasks.store", importing: "default.realm", Chore.self)
    ///
    /// Where there is a store, it is opened, and the Realm file does not count any more. Where there is none, all that
    /// the Realm file holds is written to a new one, with classes, links and embedded objects, as changes that wait for
    /// upload; objects of asymmetric classes are left out. A process that ends meanwhile leaves no store, and the next
    /// one begins anew. Where there is no Realm file either, as in a new installation, the store is empty. The Realm
    /// file stays as it is; nobody may write it meanwhile.
    ///
    /// - Parameters:
    ///   - path: of the store's file.
    ///   - realm: the path of the Realm file (`Spec/RealmFile.md`).
    ///   - key: the 64 bytes that the Realm file is encrypted with; nil if it is not.
    ///   - types: as when a store is opened.
    /// - Throws: `RealmFileError` if the Realm file cannot be read, or not all of it: then there is no store;
    ///   `ReplicaError` with the code `inUse` if somebody else imports it; what opening a store throws.
    public convenience init(
        _ path: String, importing realm: String, key: [UInt8]? = nil, _ types: any SyncedObject.Type...
    ) async throws {
        try await RealmFileImport(realmPath: realm, key: key, path: path).run()
        try await self.init(try SyncedReplica(path: path), types)
    }
}
