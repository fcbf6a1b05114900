import Foundation
import NIOCore

/// The reason why a server cannot listen at an address.
public struct ListenError: Error, Sendable, CustomStringConvertible {
    /// The address and the reason.
    public let description: String

    package init(host: String, port: Int, _ error: any Error) {
        let address = host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
        let reason =
            switch error {
            case let error as IOError where error.errnoCode == EACCES && 1..<1024 ~= port:
                "\(String(cString: strerror(EACCES))): the system keeps ports below 1024 for root and services with "
                    + "CAP_NET_BIND_SERVICE, which scripts/deploy/low-port.conf gives the unit of systemd; or listen "
                    + "above and have a proxy in front"
            case let error as IOError: String(cString: strerror(error.errnoCode))
            case SocketAddressError.unknown: "there is no such host"
            default: "\(error)"
            }
        description = "cannot listen at \(address): \(reason)"
    }
}
