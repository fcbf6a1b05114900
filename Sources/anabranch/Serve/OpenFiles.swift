import Foundation
import Logging

/// The files and sockets that the process may have open.
enum OpenFiles {
    /// What the server needs beside its connections: its store, the admin interface, what it reads.
    private static let othersMax = 256

    /// Allows as many as the system does. Warns if these are too few: then connections would hang that the limits of
    /// the server allow.
    static func raiseLimit(connectionsMax: Int, _ logger: Logger) {
        var limit = rlimit()
        #if os(Linux)
        let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        #else
        let resource = RLIMIT_NOFILE
        #endif
        guard getrlimit(resource, &limit) == 0 else { return }
        limit.rlim_cur = limit.rlim_max
        _ = setrlimit(resource, &limit)
        let needed = connectionsMax.addingReportingOverflow(othersMax).partialValue
        guard needed > 0, limit.rlim_max < UInt64(needed) else { return }
        logger.warning(
            "connections beyond the limit of open files will hang: raise it (ulimit -Hn), or lower connections",
            metadata: ["files": "\(limit.rlim_max)", "connections": "\(connectionsMax)"])
    }
}
