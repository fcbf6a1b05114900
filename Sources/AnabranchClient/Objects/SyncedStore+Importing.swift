import AnabranchRealmFile

extension SyncedStore {
    /// Opens a store, into which a Realm file is imported once. For applications that leave Realm.
    ///
    ///     let store = try await SyncedStore("tasks.store", importing: "default.realm", Chore.self)
    ///
    /// If the store exists, it is opened, and the Realm file is ignored. If it does not, the whole contents of the
    /// Realm file are written to a new one, with classes, links and embedded objects, as changes that wait for upload;
    /// objects of asymmetric classes are left out. A process that ends during the import leaves no store, and the next
    /// one starts over. If there is no Realm file either, as in a new installation, the store is empty. The Realm file
    /// stays as it is; nobody may write it during the import.
    ///
    /// - Parameters:
    ///   - path: the path of the store's file.
    ///   - realm: the path of the Realm file (`Spec/RealmFile.md`).
    ///   - key: the 64 bytes with which the Realm file is encrypted; nil if it is not.
    ///   - types: the types whose classes are added, as when a store is opened.
    /// - Throws: `RealmFileError` if the Realm file cannot be read, or not all of it: then there is no store;
    ///   `ReplicaError` with the code `inUse` if another process or task imports it; what opening a store throws.
    public convenience init(
        _ path: String, importing realm: String, key: [UInt8]? = nil, _ types: any SyncedObject.Type...
    ) async throws {
        try await RealmFileImport(realmPath: realm, key: key, path: path).run()
        try await self.init(try SyncedReplica(path: path), types)
    }
}
