import Foundation
import NIOCore
import NIOPosix
import Testing

@testable import anabranch

/// A server that cannot start, or only in part.
@Suite(.timeLimit(.minutes(30))) struct ServerStartTests {
    private let folder = FileManager.default.temporaryDirectory.appending(path: "anabranch-\(UUID())").path()

    @Test(arguments: ["--rules missing.yaml", "--tls-certificate missing.pem --tls-key missing.pem"])
    func aFileThatIsMissingLeavesNothingBehind(arguments: String) throws {
        let answer = try BuiltCommands.bash(
            "anabranch serve --dev --data $1 --listen 127.0.0.1:0 \(arguments)", folder)
        #expect(answer.status == 1 && answer.complaint.contains("missing."), "\(answer)")
        #expect(!FileManager.default.fileExists(atPath: folder), "it made something")
    }

    @Test func aPortThatIsTakenLeavesNothingBehind() async throws {
        let other = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .bind(host: "127.0.0.1", port: 0).get()
        let port = try #require(other.localAddress?.port)
        let answer = try BuiltCommands.bash("anabranch serve --dev --data $1 --listen 127.0.0.1:\(port)", folder)
        try await other.close()
        let reason = "Error: cannot listen at 127.0.0.1:\(port): Address already in use\n"
        #expect(answer.status == 1 && answer.complaint.hasSuffix(reason), "\(answer)")
        #expect(!FileManager.default.fileExists(atPath: folder), "it made something")
    }

    @Test func aServerWithoutFilesForItselfDoesNotStart() throws {
        let own = ServeCommand.ownFilesMax
        let answer = try serve(files: own, "")
        #expect(answer.status == 1)
        let reason = "lets the server have \(own) files open, and it needs \(own) for itself"
        #expect(answer.output.contains(reason), "\(answer)")
        #expect(!FileManager.default.fileExists(atPath: folder), "it made something")
    }

    /// Whoever reads or puts one slowly keeps it open.
    @Test func aConnectionCanHaveAChunkOpen() {
        for (haveChunks, count) in [(false, 100), (true, 50)] {
            #expect(ServeCommand.connections(within: ServeCommand.ownFilesMax + 100, haveChunks: haveChunks) == count)
        }
    }

    /// The first two connections are served, and so is the operator; the third is closed at once.
    @Test func connectionsForWhichThereIsNoFileAreRefused() throws {
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let files = ServeCommand.ownFilesMax + 2
        let answer = try serve(
            files: files,
            """
            exec 3<>/dev/tcp/127.0.0.1/$port 4<>/dev/tcp/127.0.0.1/$port
            ask() {
                printf 'GET /api/client/v2.0/app/a/location HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n' >&"$1"
                head -n 1 <&"$1"
            }
            ask 3 && ask 4
            exec 5<>/dev/tcp/127.0.0.1/$port
            echo "third: $(ask 5 2>&1 | grep -c 200)"
            anabranch admin ready --data "$1"
            until grep -q 'limit=connections' "$log"; do sleep 0.1; done
            """)
        #expect(answer.status == 0, "\(answer)")
        #expect(answer.output.components(separatedBy: "HTTP/1.1 200 OK").count == 3, "\(answer)")
        #expect(answer.output.contains("third: 0") && answer.output.contains("\nready"), "\(answer)")
        #expect(answer.output.contains("configured=10000 connections=2 files=\(files)"), "\(answer)")
    }

    /// Runs a server with so many files, and beside it what a shell is told to do, with its `port` and its `log`.
    /// - Returns: what that has printed, and the log after it.
    private func serve(files: Int, _ script: String) throws -> BuiltCommands.Answer {
        try BuiltCommands.bash(
            """
            set -eu
            log="$(mktemp)"
            (ulimit -n \(files); exec anabranch serve --dev --data "$1" --listen 127.0.0.1:0) >"$log.out" 2>"$log" &
            server=$!
            trap 'kill $server 2>/dev/null || true; cat "$log"; rm "$log" "$log.out"' EXIT
            until [ -s "$log.out" ]; do kill -0 $server 2>/dev/null || { wait $server; exit $?; }; sleep 0.1; done
            port="$(sed 's/.*://' "$log.out")"
            \(script)
            """, folder)
    }
}
