import AnabranchClient
import ArgumentParser
import CommandSupport
import Foundation

/// `anabranch client copy`.
struct ClientCopy: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "copy",
        abstract: "Copy a replica for other devices or users.",
        discussion: """
            The copy has the objects of the replica and its place in the server's log: a device that begins with it \
            downloads only what has changed since, under an ident of its own. It can be copied as often as there are \
            devices, and bundled with an application. With --url the replica is synchronized before. What was written \
            and not uploaded would be uploaded twice, so it is an error.

            The server knows the place of a copy for as long as its log goes back to it. A later one is reset, as any \
            other client is; so make a new copy for each release of an application.

            EXAMPLES
              anabranch client copy ./bundle --data ./replicas --path '/"notes"' \\
                  --url ws://127.0.0.1:9090
              anabranch client read --data ./bundle --path '/"notes"'
            """)

    @OptionGroup var options: ClientOptions

    @Argument(help: "The folder that gets the copy, for use as --data; made if it is missing.")
    var folder: String

    func run() async throws {
        let source = try options.file(), target = URL(fileURLWithPath: folder, isDirectory: true)
        if options.url != nil { try await options.withReplica { try await $0.synchronize() } }
        try FileManager.default.createDirectory(
            at: target, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        let name = URL(fileURLWithPath: source).lastPathComponent
        try ReplicaCopy.write(source, to: target.appendingPathComponent(name).path)
    }
}
