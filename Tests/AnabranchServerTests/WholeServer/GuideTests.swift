import AnabranchTesting
import Foundation
import NIOCore
import NIOPosix
import Testing

/// The commands of the README and of the guides are run in an empty folder, with the files that they show. Ports are
/// others, so that servers of other tests do not stand in the way, and nothing is built again.
@Suite(.timeLimit(.minutes(30))) struct GuideTests {
    private struct Guide: CustomTestStringConvertible {
        let page: String
        /// The lines that have to be in the output of the commands.
        let expected: [String]
        /// Realm files that the page does not show, and those of the vectors that they are.
        var realmFiles: [String: String] = [:]
        var testDescription: String { page }
    }

    private static let guides = [
        Guide(
            page: "README.md",
            expected: ["ready", "CONNECTION", "no damage", "water the plants", "unsynced    1 transaction"]),
        Guide(
            page: "Spec/Guide/ConnectAnApp.md",
            expected: ["ready", "ws_hostname", "refresh_token", "CONNECTION", "nobody has come yet"]),
        Guide(page: "Spec/Guide/Devices.md", expected: ["no damage"]),
        Guide(
            page: "Spec/Guide/Embed.md",
            expected: ["ann@example.com", #"notes/"program""#, "no damage", "AddTable", "both read: oat, milk, bread"]),
        Guide(
            page: "Spec/Guide/FromAtlas.md",
            expected: [
                "the configuration is good", "2 objects written", "water the plants", #"my-app/"user=5f0c"#,
                "2 changes never uploaded", "27 objects written", "0 changes made, 2 made before, 0 lost",
            ],
            realmFiles: ["ann-phone": "44-synced-merged-and-pending", "bob-tablet": "43-synced-some-uploaded"]),
        Guide(
            page: "Spec/Guide/FromBarq.md",
            expected: [
                "the configuration is good", "HTTP/1.1 101", "connection opened", "io.barq.sync#14", "wrong signature",
                "ann", "no damage",
            ]),
        Guide(
            page: "Spec/Guide/Operate.md",
            expected: [
                "the configuration is good", "ann@example.com", "sync_route", "anabranch_sessions", "Welcome",
                "deleted my-app", "no damage",
            ]),
        Guide(
            page: "Spec/Guide/SimperiumClients.md",
            expected: [
                "the configuration is good", #""ev":1"#, #""error":409"#, "X-Simperium-Version: 2", "water the cactus",
                #"my-notes/"simperium/"#, #""websocket":true"#, "no damage",
            ]),
    ]

    @Test(.enabled(if: ServerProcess.executable != nil, "needs the built command"), arguments: guides)
    private func theCommandsOfAPageWork(_ guide: Guide) async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("guide-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let products = try #require(ServerProcess.executable).deletingLastPathComponent()
        try FileManager.default.createDirectory(
            at: folder.appendingPathComponent(".build"), withIntermediateDirectories: true)
        for (name, place) in [("scripts", Self.root.appendingPathComponent("scripts")), (".build/release", products)] {
            try FileManager.default.createSymbolicLink(
                at: folder.appendingPathComponent(name), withDestinationURL: place)
        }
        let blocks = try await Self.blocks(of: guide.page)
        for block in blocks {
            guard let file = block.file else { continue }
            try Data(block.text.utf8).write(to: folder.appendingPathComponent(file))
        }
        for (name, vector) in guide.realmFiles {
            try GzipFile.contents(of: "\(RealmFileDesk.vectors)/\(vector).realm.gz")
                .write(to: folder.appendingPathComponent(name + ".realm"))
        }
        let script = blocks.filter { $0.language == "sh" }.map(\.script).joined()
        #expect(!script.isEmpty)
        let (status, output) = try await Self.run(script, in: folder, products: products)
        #expect(status == 0, "\(output)")
        for text in guide.expected { #expect(output.contains(text), "\(text) is not in:\n\(output)") }
        let shown = blocks.filter { $0.language == "text" }.flatMap { $0.text.split(separator: "\n").map(String.init) }
        let missing = Self.missing(shown, in: output.split(whereSeparator: \.isNewline).map(String.init))
        #expect(missing == nil, "\(guide.page) shows \(missing ?? ""), and the commands print:\n\(output)")
    }

    /// The lines that a page shows below its commands are printed by them, in this order; others may stand between
    /// them. In a line … stands for anything, and more than one space for any number of them: columns are as wide as
    /// their texts.
    /// - Returns: the first line that is not printed.
    private static func missing(_ shown: [String], in printed: [String]) -> String? {
        let spaces = #/ {2,}/#
        var rest = printed.map { $0.replacing(spaces, with: "  ") }[...]
        for line in shown {
            let parts = line.replacing(spaces, with: "  ").components(separatedBy: "…")
            guard let place = rest.firstIndex(where: { fits($0, parts) }) else { return line }
            rest = rest[(place + 1)...]
        }
        return nil
    }

    /// True if a line consists of the parts, with anything between them.
    private static func fits(_ line: String, _ parts: [String]) -> Bool {
        guard parts.count > 1 else { return line == parts[0] }
        guard line.hasPrefix(parts[0]), line.hasSuffix(parts[parts.count - 1]) else { return false }
        var rest = line.dropFirst(parts[0].count)
        for part in parts[1...] where !part.isEmpty {
            guard let found = rest.firstRange(of: part) else { return false }
            rest = rest[found.upperBound...]
        }
        return true
    }

    @Test(
        arguments: [
            (["a", "c"], ["a", "b", "c"], nil), (["c", "a"], ["a", "c"], "a"), (["a…c"], ["abc"], nil),
            (["a…c"], ["abcd"], "a…c"), (["a  b"], ["a     b"], nil), (["…", "x…"], ["a", "xy"], nil),
            (["ab"], ["a"], "ab"),
        ] as [([String], [String], String?)])
    func whatAPageShowsIsCompared(shown: [String], printed: [String], missing: String?) {
        #expect(Self.missing(shown, in: printed) == missing)
    }

    /// A command that runs this test cannot be run by it.
    @Test func theScriptsThatPagesNameAreThere() throws {
        let pages = try ["README.md", "Spec/Architecture.md"].map { page in
            try String(contentsOf: Self.root.appendingPathComponent(page), encoding: .utf8)
        }
        let scripts = Set(pages.flatMap { $0.matches(of: /`(scripts\/[\w-]+)[` ]/).map { String($0.output.1) } })
        #expect(scripts.count > 10)
        for script in scripts {
            let path = Self.root.appendingPathComponent(script).path
            #expect(FileManager.default.isExecutableFile(atPath: path), "\(script)")
        }
    }

    private struct Block {
        let language: String
        /// The name that stands before it.
        let file: String?
        var text = ""

        /// A command without an end runs beside what follows.
        var script: String {
            guard text.hasPrefix("scripts/serve") else { return text }
            return """
                ANABRANCH_LISTEN=127.0.0.1:0 scripts/serve 2> server.log &
                anabranch admin ready --data data --wait 60\n
                """
        }
    }

    private static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        .appendingPathComponent("../../..").standardizedFileURL

    private static func blocks(of page: String) async throws -> [Block] {
        let ports = ["9090": try await port(), "8443": try await port()]
        var blocks: [Block] = [], file: String?, isInBlock = false
        for line in try String(contentsOf: root.appendingPathComponent(page), encoding: .utf8).split(separator: "\n") {
            if line.hasPrefix("```") {
                isInBlock.toggle()
                if isInBlock { blocks.append(Block(language: String(line.dropFirst(3)), file: file)) }
                file = nil
            } else if isInBlock {
                let text = ports.reduce(String(line)) { text, port in
                    text.replacing(":\(port.key)", with: ":\(port.value)")
                }
                // The examples have been built with the tests; as packages of their own they take some minutes.
                blocks[blocks.count - 1].text +=
                    text.replacing(/swift run --package-path Examples\/\w+/, with: "") + "\n"
            } else {
                file = line.wholeMatch(of: /`([\w.-]+)`:/).map { String($0.output.1) }
            }
        }
        return blocks
    }

    /// A port that is free, and below those that systems give away by themselves: so nobody gets it in between.
    private static func port() async throws -> Int {
        while true {
            try Task.checkCancellation()
            let port = Int.random(in: 10_000..<32_768)
            let server = ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            guard let channel = try? await server.bind(host: "127.0.0.1", port: port).get() else { continue }
            try await channel.close()
            return port
        }
    }

    /// Nothing that a page starts stays, also where the page fails before it stops it: not even nginx, which is no job.
    private static let ending = """
        set -eu
        trap 'kill $(jobs -p) $(cat nginx.pid 2> /dev/null) 2> /dev/null && wait' EXIT

        """

    private static func run(
        _ script: String, in folder: URL, products: URL
    ) async throws -> (status: Int32, output: String) {
        let output = folder.appendingPathComponent("output")
        #expect(FileManager.default.createFile(atPath: output.path, contents: nil))
        let log = try FileHandle(forWritingTo: output), process = Process()
        process.executableURL = URL(fileURLWithPath: "/bin/bash")
        process.arguments = ["-c", Self.ending + script]
        process.currentDirectoryURL = folder
        var environment = ProcessInfo.processInfo.environment.filter { !$0.key.hasPrefix("ANABRANCH_") }
        // nginx is where Debian has programs of the administrator, which not every PATH names.
        environment["PATH"] = "\(products.path):\(environment["PATH"] ?? ""):/usr/local/sbin:/usr/sbin"
        environment["ANABRANCH_PRODUCTS"] = products.path
        process.environment = environment
        (process.standardOutput, process.standardError) = (log, log)
        let (ending, end) = AsyncStream.makeStream(of: Never.self)
        process.terminationHandler = { _ in end.finish() }
        try process.run()
        for await _ in ending {}
        return (process.terminationStatus, try String(contentsOf: output, encoding: .utf8))
    }
}
