import ArgumentParser

struct LoadCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "load",
        abstract: "Bring load to a server, and measure what it and its bystanders do.",
        discussion: """
            The clients speak the wire protocol but integrate nothing, so that a few threads are thousands of them. \
            Progress goes to standard error. In the end there is one JSON line on standard output: latencies of the \
            load in milliseconds, bytes on the wire, the server's memory and CPU if its process is known, and what \
            bystanders had to wait, alone before, during and alone after the load. They are pairs of clients on files \
            of their own, one of which writes, waits until the other one has it, and pauses 50 ms, and somebody who \
            opens a connection, closes it, and pauses. Of several files the one with the highest p99 counts.

            The server is one that --serve starts for the run and removes, or a running one (--url). Without a token \
            clients are let in by a server in development mode; --app logs in. On a running server, the files of a run \
            stay; their names begin with "load-".

            EXAMPLES
              anabranch-lab load fanout --readers 1000 --rounds 100 \\
                  --serve .build/release/anabranch
              anabranch-lab load fanout --url ws://127.0.0.1:9090 --app my-app \\
                  --server-pid 4711
            """,
        subcommands: [
            IdleCommand.self, FanoutCommand.self, WritersCommand.self, SlowCommand.self, StormCommand.self,
            VisitsCommand.self, FirstSyncCommand.self, FlexibleCommand.self, FloodCommand.self, AttackCommand.self,
            SimperiumCommand.self, FloorCommand.self,
        ])
}
