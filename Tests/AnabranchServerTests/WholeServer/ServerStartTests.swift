import Foundation
import Testing

/// A server that cannot start, or only in part.
@Suite(.timeLimit(.minutes(30)), .enabled(if: ServerProcess.executable != nil, "needs the built command"))
struct ServerStartTests {
    @Test(arguments: [["--rules", "missing.yaml"], ["--tls-certificate", "missing.pem", "--tls-key", "missing.pem"]])
    func aFileThatIsMissingLeavesNothingBehind(arguments: [String]) async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "anabranch-\(UUID())").path()
        let serve = ["serve", "--dev", "--data", folder, "--listen", "127.0.0.1:0"]
        let output = try await AdminCommandTests.run(serve + arguments)
        #expect(output.status == 1 && output.complaint.contains("missing."), "\(output)")
        #expect(!FileManager.default.fileExists(atPath: folder), "it made something")
    }

    @Test func aServerWithoutFilesForItselfDoesNotStart() async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "anabranch-\(UUID())").path()
        let (status, text) = try await Self.serve(folder, files: 384, "")
        #expect(status == 1)
        #expect(text.contains("lets the server have 384 files open, and it needs 384 for itself"), "\(text)")
        #expect(!FileManager.default.fileExists(atPath: folder), "it made something")
    }

    /// The first two connections are served, and so is the operator; the third is closed at once.
    @Test func connectionsForWhichThereIsNoFileAreRefused() async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "anabranch-\(UUID())").path()
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let (status, text) = try await Self.serve(
            folder, files: 386,
            """
            exec 3<>/dev/tcp/127.0.0.1/$port 4<>/dev/tcp/127.0.0.1/$port
            ask() {
                printf 'GET /api/client/v2.0/app/a/location HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n' >&"$1"
                head -n 1 <&"$1"
            }
            ask 3 && ask 4
            exec 5<>/dev/tcp/127.0.0.1/$port
            echo "third: $(ask 5 2>&1 | grep -c 200)"
            "$0" admin ready --data "$1"
            until grep -q 'limit=connections' "$1/log"; do sleep 0.1; done
            """)
        #expect(status == 0, "\(text)")
        #expect(text.components(separatedBy: "HTTP/1.1 200 OK").count == 3, "\(text)")
        #expect(text.contains("third: 0") && text.contains("\nready"), "\(text)")
        #expect(text.contains("configured=10000 connections=2 files=386"), "\(text)")
    }

    /// Runs a server with so many files, and beside it what a shell is told to do, with its `port`.
    /// - Returns: what both have printed.
    private static func serve(_ folder: String, files: Int, _ script: String) async throws -> (Int32, String) {
        let executable = try #require(ServerProcess.executable).path()
        let process = Process(), output = Pipe()
        process.executableURL = URL(fileURLWithPath: "/bin/bash")
        let whole = """
            set -eu
            log="$(mktemp)"
            (ulimit -n \(files); exec "$0" serve --dev --data "$1" --listen 127.0.0.1:0) >"$log.out" 2>"$log" &
            server=$!
            trap 'kill $server 2>/dev/null || true; cat "$log"; rm "$log" "$log.out"' EXIT
            until [ -s "$log.out" ]; do kill -0 $server 2>/dev/null || { wait $server; exit $?; }; sleep 0.1; done
            port="$(sed 's/.*://' "$log.out")"
            ln -s "$log" "$1/log"
            \(script)
            """
        process.arguments = ["-c", whole, executable, folder]
        (process.standardOutput, process.standardError) = (output, output)
        try process.run()
        let text: String = await withCheckedContinuation { continuation in
            Thread.detachNewThread {
                let bytes = (try? output.fileHandleForReading.readToEnd()) ?? Data()
                process.waitUntilExit()
                continuation.resume(returning: String(decoding: bytes, as: UTF8.self))
            }
        }
        return (process.terminationStatus, text)
    }
}
