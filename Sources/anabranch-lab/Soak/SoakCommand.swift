import ArgumentParser
import CommandSupport
import Foundation

struct SoakCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "soak",
        abstract: "Keep a server and clients busy for long, and see whether anything grows.",
        discussion: """
            Starts `anabranch serve --dev` and --clients clients in this process, half of them in a file that is \
            synchronized by partition, half in one of flexible sync. They write --rate transactions a second to a \
            bounded number of objects, and are offline now and then; one after another is thrown away and begins \
            anew, and its old client file is let expire. The server is maintained, backed up, ended and killed, and \
            begins again, in each third of the time alike. So everything has a size that it stays at.

            Each second the memory of the server and of the clients, their descriptors, and the bytes on the disks of \
            both are taken. The highest of the last third must be at most that of the third before and a little: \
            8 MiB, or 8 descriptors. In the end all clients of a file must have one state. The exit status is 1 if \
            something has grown, or states differ; then the files stay.

            EXAMPLES
              anabranch-lab soak --minutes 60
              anabranch-lab soak --minutes 3 --clients 4 --rate 20 --seed 7
            """)

    @OptionGroup var program: ServedProgram

    @Option(help: "How long it goes on.")
    var minutes = 60

    @Option(help: "How many clients there are.")
    var clients = 8

    @Option(help: "How many transactions a second they write together.")
    var rate = 50

    @Option(help: "Decides what is written, and by whom.")
    var seed: UInt64 = 1

    func validate() throws {
        guard minutes > 0, clients > 1, (1...1_000).contains(rate) else {
            throw ValidationError("--minutes must be 1 or more, --clients 2 or more, --rate from 1 to 1,000.")
        }
    }

    func run() async throws {
        let directory = FileManager.default.temporaryDirectory
            .appendingPathComponent("anabranch-soak-\(UInt32.random(in: 0 ... .max))")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        let soak = Soak(
            seconds: minutes * 60, clients: clients, rate: rate, seed: seed, serve: try program.path(), in: directory)
        do {
            let report = try await soak.run()
            RunProgress.end()
            print(report.text)
            guard report.failedCount == 0 else { throw ExitCode.failure }
            try? FileManager.default.removeItem(at: directory)
        } catch {
            RunProgress.end()
            print("what it left: \(directory.path)")
            throw error
        }
    }
}
