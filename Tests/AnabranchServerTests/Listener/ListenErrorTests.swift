import AnabranchServer
import Foundation
import NIOCore
import Testing

/// The reasons why a server cannot listen, as people read them.
@Suite struct ListenErrorTests {
    @Test(arguments: [
        (443, EACCES, true), (1023, EACCES, true), (1024, EACCES, false), (0, EACCES, false), (443, EADDRINUSE, false),
    ])
    func aPortOfTheSystemIsNamedWithTheWayOut(port: Int, code: Int32, isHinted: Bool) {
        let error = ListenError(host: "::", port: port, IOError(errnoCode: code, reason: "bind"))
        #expect(error.description.hasPrefix("cannot listen at [::]:\(port): \(String(cString: strerror(code)))"))
        #expect(error.description.contains("scripts/deploy/low-port.conf") == isHinted)
    }
}
