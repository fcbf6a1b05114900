import AnabranchServer
import ArgumentParser
import Foundation

/// `anabranch key rotate`: a new key for tokens.
struct KeyCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "key", abstract: "Manage the keys that sign tokens.", subcommands: [Rotate.self])

    struct Rotate: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Make a new key for tokens.",
            discussion: """
                A running server signs with it at once, and accepts what the former keys have signed until that has \
                expired, so nobody has to log in again. How long that is, session-seconds says in the server's \
                configuration: give its --config, if there is one.

                EXAMPLES
                  anabranch key rotate --data /var/lib/anabranch
                  anabranch key rotate --config /etc/anabranch/anabranch.yaml
                """)

        @OptionGroup var store: StoreOption

        func run() throws {
            let configuration = try store.configuration()
            try configuration.requireDirectory()
            let ident = try KeyFile.rotate(
                path: configuration.keyPath, now: UInt64(max(1, Date().timeIntervalSince1970)),
                lifetimeSeconds: configuration.appServices.sessionSeconds)
            print("signing with key \(ident)")
        }
    }
}
