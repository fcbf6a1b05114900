import ArgumentParser
import Foundation
import NIOCore

struct AdminIngested: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "ingested", abstract: "The objects of asymmetric classes that clients have uploaded.",
        discussion: """
            In flexible sync such objects are no part of the state, and nobody is sent them: the server keeps them for \
            whoever reads them here. A consumer lists them, does something about them, and frees what it has done with \
            --free and the highest number. They may occupy 1 GiB in each file; uploads with more wait.

            EXAMPLES
              anabranch admin ingested my-app --json --limit 1000 --data ./data
              anabranch admin ingested my-app --free 3145730 --data ./data
            """)

    struct Listing: AdminListing {
        struct Object: Decodable {
            var number: UInt64, `class`: String, time: Double, user: String?, object: String
        }

        static let path = "/v1/ingested"
        static let columns = ["NUMBER", "CLASS", "TIME", "USER", "OBJECT"]
        var ingested: [Object]
        var next: String?
        var rows: [[String]] {
            ingested.map { object in
                let time = Date(timeIntervalSince1970: object.time).formatted(.iso8601)
                return ["\(object.number)", object.class, time, object.user ?? "-", object.object]
            }
        }
    }

    @OptionGroup var options: AdminOptions
    @OptionGroup var page: PageOptions
    @Option(help: ArgumentHelp("Free those up to this number, in place of listing any.", valueName: "number"))
    var free: UInt64?
    @Argument(help: "The synced file, as `admin files` shows it.")
    var file: String

    private struct Freed: Encodable {
        var path: String
        var through: UInt64
    }

    func run() async throws {
        guard let free else { return try await page.show(Listing.self, [("path", file)], options) }
        try await options.run { client in
            let answer = try await client.post("/v1/ingested/free", Freed(path: file, through: free))
            if options.json { show(answer) } else { print("freed up to \(free)") }
        }
    }
}
