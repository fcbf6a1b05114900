public import AnabranchCore

extension RealmFile {
    /// A summary of a file, without its objects.
    public struct Information: Sendable {
        /// A class of the file.
        public struct Class: Sendable {
            /// The name of the class; bytes that are not UTF-8 are replaced.
            public var name: String
            /// The kind of its objects: independent, embedded or asymmetric.
            public var kind: TableType
            /// The number of its properties, including the primary key.
            public var propertyCount: Int
            /// The number of its objects, including those of embedded classes that no link leads to.
            public var objectCount: Int
        }

        /// The classes in the order of their names.
        public var classes: [Class] = []
        /// The tables that are not classes, in the order of their names: an SDK keeps its own state in them.
        public var otherTables: [String] = []
        /// True if data were downloaded that are not in the classes yet.
        public var hasUnfinishedDownload = false
        /// The damaged parts that were left out, the first 1,000 of them.
        public var problems: [RealmFileError] = []
        /// The features of the file that are in none of the files that this reader was checked against.
        public var notSeen: [String] = []

        /// True if the file syncs queries, and not a partition; the partition's value is not in the file.
        public var isFlexible: Bool { otherTables.contains("flx_subscription_sets") }
    }

    /// The purpose of a file's history.
    public enum History: Sendable, Hashable {
        /// A local file.
        case none, outside, local
        /// A file that was synced, or meant to be.
        case syncClient
        /// A file of a self-hosted server, the Realm Object Server.
        case syncServer
        /// An unknown kind.
        case unknown(Int)
    }

    /// The number of the format: 10, 11 or 20 to 24; 0 in a file that was never written.
    public var format: Int { header.format }
    /// True if it is a copy that was never opened for writing.
    public var isStreaming: Bool { header.isStreaming }
    /// The version of the file, counted in commits.
    public var version: Int { header.version }
    /// The version of the form in which the history is stored (`Spec/RealmFile.md`).
    public var historyForm: Int { header.historyForm }
    /// The purpose of the history.
    public var history: History {
        switch header.history {
        case 0: .none
        case 1: .outside
        case 2: .local
        case FileHeader.syncClientHistory: .syncClient
        case FileHeader.syncServerHistory: .syncServer
        default: .unknown(header.history)
        }
    }

    /// A summary of the file, with the number of objects of each class.
    ///
    /// - Parameter salvages: whether damaged parts are left out, and named.
    /// - Throws: `RealmFileError` for damage.
    public func information(salvages: Bool = false) throws(RealmFileError) -> Information {
        let reading = FileReading(self, salvages: salvages), tables = try Tables(reading)
        var information = Information()
        for table in tables.all {
            let isBootstrap = table.className.starts(with: "flx_pending_bootstrap".utf8)
            guard table.isClass || isBootstrap else { continue }
            var objectCount = 0
            try reading.salvaging(table.place) { () throws(RealmFileError) in
                try reading.forEachCluster(table.objects, of: table.place) { cluster, _ in objectCount += cluster.count
                }
            }
            guard table.isClass else {
                information.hasUnfinishedDownload = information.hasUnfinishedDownload || objectCount > 0
                continue
            }
            information.classes.append(
                Information.Class(
                    name: String(decoding: table.className, as: UTF8.self), kind: table.kind,
                    propertyCount: table.columns.count, objectCount: objectCount))
        }
        information.classes.sort { $0.name.utf8.lexicographicallyPrecedes($1.name.utf8) }
        information.otherTables = tables.all.filter { !$0.isClass }.map { String(decoding: $0.name, as: UTF8.self) }
            .sorted()
        information.problems = reading.problems
        information.notSeen = reading.notSeen
        return information
    }
}
