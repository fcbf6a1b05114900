import Foundation

/// The limit of the files and sockets that the process may have open: thousands of sockets are thousands of
/// descriptors.
package enum OpenFileLimit {
    /// Raises the limit as far as the system allows.
    /// - Returns: the new limit; nil if the system does not say.
    @discardableResult
    package static func raise() -> UInt64? {
        var limit = rlimit()
        #if os(Linux)
        let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        #else
        let resource = RLIMIT_NOFILE
        #endif
        guard getrlimit(resource, &limit) == 0 else { return nil }
        limit.rlim_cur = limit.rlim_max
        _ = setrlimit(resource, &limit)
        return UInt64(limit.rlim_max)
    }
}
