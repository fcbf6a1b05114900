import AnabranchTestClient
import ArgumentParser
import CommandSupport
import Foundation
import NIOCore
import NIOPosix

/// The options of all loads: the server, the clients, and what is measured along with the load.
struct LoadOptions: ParsableArguments {
    @Option(help: ArgumentHelp("A running server; the path of its sync endpoint may follow.", valueName: "ws-url"))
    var url: String?

    @Option(
        help: ArgumentHelp(
            """
            Another server over the store of that of --url (Spec/Nodes.md), as often as there are others: clients come \
            to all of them in turn, bystanders to the first.
            """, valueName: "ws-url"))
    var also: [String] = []

    @Option(
        help: ArgumentHelp(
            "Start this `anabranch` in development mode on a temporary directory, which is removed in the end.",
            valueName: "binary"))
    var serve: String?

    @Option(help: "Log in as a user of this app; anonymously if there is no --email.")
    var app: String?

    @Option(help: "Log in with this e-mail address.")
    var email: String?

    @Option(help: "The password that belongs to it.")
    var password: String?

    @Option(help: "Come with this access token instead of logging in.")
    var token: String?

    @Option(name: .customLong("server-pid"), help: "The process of the server of --url, to be measured, too.")
    var serverPID: Int32?

    @Option(help: "The data directory of the server of --url: the size of its write-ahead log is measured.")
    var serverData: String?

    @Option(
        help: """
            How many files have a bystander, who is measured before, during and after the load. They and one who opens \
            connections are never idle; with 0 the load has the server for itself, and all its processor time.
            """)
    var bystanders = 4

    @Option(help: "How long the bystanders are measured alone, before and after.")
    var aloneSeconds = 3.0

    @Option(help: "Threads that bring the load; the bystanders have one of their own.")
    var threads = 2

    @Option(help: "How much nicer than the bystanders the load's threads are, 0 to 19 (Linux).")
    var nice: Int32 = 10

    func validate() throws {
        guard (url == nil) != (serve == nil) else { throw ValidationError("Pass either --url or --serve.") }
        guard also.isEmpty || url != nil else { throw ValidationError("--also needs --url.") }
        guard (email == nil) == (password == nil) else {
            throw ValidationError("--email and --password need each other.")
        }
        guard email == nil || app != nil else { throw ValidationError("--email needs --app.") }
        guard token == nil || email == nil else { throw ValidationError("--token replaces --email and --password.") }
        guard serve == nil || serverPID == nil && serverData == nil else {
            throw ValidationError("--server-pid and --server-data are of the server of --url.")
        }
        guard serverData == nil || serverPID != nil else { throw ValidationError("--server-data needs --server-pid.") }
        guard bystanders >= 0, threads > 0, aloneSeconds > 0 else {
            throw ValidationError(
                "--bystanders must be 0 or more, --threads 1 or more, --alone-seconds more than 0.")
        }
        guard (0...19).contains(nice) else { throw ValidationError("--nice must be from 0 to 19.") }
    }

    /// Brings a load and prints what was measured.
    ///
    /// - Parameters:
    ///   - numbers: the options of the load, for the report.
    ///   - configuration: the configuration of the server of `--serve`, in YAML; nil for development mode alone.
    ///   - fill: puts into the data directory what the server of `--serve` shall find there.
    ///   - body: prepares the load, and calls `measure` of the run.
    func run(
        _ load: String, _ numbers: [String: Double], configuration: String? = nil,
        fill: (URL) throws -> Void = { _ in },
        _ body: @escaping @Sendable (LoadRun) async throws -> Void
    ) async throws {
        OpenFileLimit.raise()
        var server: ServerUnderLoad?
        let signals = serve.map { _ in EndingSignals() }
        if let serve { server = try await ServerUnderLoad.start(serve, configuration: configuration, fill: fill) }
        do {
            var report = try await measure(load, numbers, on: server, body)
            if let server {
                let ending = await server.end()
                server.kill()
                report.counts["shutdown_seconds"] = ending.seconds
                report.counts["exit_status"] = Double(ending.exitStatus)
            }
            print(try report.jsonLine())
        } catch {
            server?.kill()
            throw error
        }
        signals?.cancel()
    }

    private func measure(
        _ load: String, _ numbers: [String: Double], on server: ServerUnderLoad?,
        _ body: @Sendable (LoadRun) async throws -> Void
    ) async throws -> LoadReport {
        let eventLoops = MultiThreadedEventLoopGroup(numberOfThreads: threads)
        let bystanderLoops = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        for eventLoop in eventLoops.makeIterator() { eventLoop.execute { [nice] in beNice(by: nice) } }
        let target = try await self.target(of: server, on: bystanderLoops)
        let others = try also.map { text in
            let other = try SyncTarget(url: text)
            var place = target
            (place.host, place.port) = (other.host, other.port)
            return place
        }
        let place =
            server?.place
            ?? serverPID.map { ServerSampler.Place(process: $0, dataDirectory: serverData, log: nil) }
        let sampler = place.map(ServerSampler.init)
        try sampler?.sample()
        let name = "load-\(String(UInt32.random(in: 0 ... .max), radix: 16))"
        let run = LoadRun(
            name: name, servers: [target] + others, aloneSeconds: aloneSeconds, eventLoops: eventLoops,
            bystanders: try await .begin(bystanders, name: name, target: target, on: bystanderLoops), sampler: sampler,
            server: server)
        let sampling = Task { await sampler?.run() }
        try await body(run)
        sampling.cancel()
        try await eventLoops.shutdownGracefully()
        try await bystanderLoops.shutdownGracefully()
        return try run.report(of: load, options: numbers)
    }

    /// Logs in, if that is wanted.
    private func target(of server: ServerUnderLoad?, on eventLoops: any EventLoopGroup) async throws -> SyncTarget {
        var target = try SyncTarget(url: server?.url ?? url ?? "")
        target.advice = ": pass --app, or another --token"
        if let token { return target.with(token: token, app: app) }
        guard let app else { return target }
        let requests = HTTPRequests(target: target, app: app, eventLoops: eventLoops)
        var credentials = HTTPRequests.Credentials.anonymous
        if let email, let password { credentials = .password(email: email, password: password) }
        return target.with(token: try await requests.logIn(credentials), app: app)
    }
}

/// Lowers the priority of the calling thread, so that it does not take the processor from the server. Elsewhere than on
/// Linux that would concern the whole process, and nothing is done.
private func beNice(by steps: Int32) {
    #if os(Linux)
    _ = Foundation.nice(steps)
    #endif
}
