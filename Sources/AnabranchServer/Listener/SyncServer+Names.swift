import AnabranchHistory
import Logging
import NIOPosix

extension SyncServer {
    /// How many partitions with several files are named in the log.
    private static let namedDuplicatesMax = 20

    /// Finds the files that older versions have named by another spelling of their partition's value, and says of
    /// which partitions there are several.
    func fileNames() async throws -> FileNames {
        guard let catalog = store as? any HistoryCatalog else { return FileNames() }
        let names = try await NIOThreadPool.singleton.runIfActive { try PartitionNames(of: catalog) }
        let duplicates = names.duplicates
        for files in duplicates.prefix(Self.namedDuplicatesMax) {
            for other in files.dropFirst() {
                logger.warning(
                    "a partition has a second file, by another spelling: stop the server and run anabranch merge-files",
                    metadata: ["path": "\(files[0].abbreviated)", "other": "\(other.abbreviated)"])
            }
        }
        if duplicates.count > Self.namedDuplicatesMax {
            logger.warning(
                "partitions have several files, by spellings: stop the server and run anabranch merge-files",
                metadata: ["partitions": "\(duplicates.count)"])
        }
        return FileNames(names)
    }
}
