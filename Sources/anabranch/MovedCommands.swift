import ArgumentParser
import Foundation

/// A command that is part of `anabranch-lab` now. In the release after that in which it went, the name goes as well.
protocol MovedCommand: ParsableCommand {
    static var oldName: String { get }
    static var newCommand: String { get }
    var arguments: [String] { get }
}

extension MovedCommand {
    static var configuration: CommandConfiguration {
        CommandConfiguration(
            commandName: oldName, abstract: "Moved: \(newCommand)", shouldDisplay: false, helpNames: [])
    }

    func run() throws {
        let text = "Error: 'anabranch \(Self.oldName)' is '\(Self.newCommand)' now.\n"
        FileHandle.standardError.write(Data(text.utf8))
        throw ExitCode.validationFailure
    }
}

enum MovedCommands {
    static let all: [any ParsableCommand.Type] = [
        Vectors.self, Merge.self, Bench.self, BenchServer.self, BenchApply.self, Cases.self, DiffMerge.self,
        Trace.self, Converge.self,
    ]

    struct Vectors: MovedCommand {
        static let oldName = "vectors", newCommand = "anabranch-lab check vectors"
        @Argument(parsing: .captureForPassthrough) var arguments: [String] = []
    }

    struct Merge: MovedCommand {
        static let oldName = "merge", newCommand = "anabranch-lab merge"
        @Argument(parsing: .captureForPassthrough) var arguments: [String] = []
    }

    struct Bench: MovedCommand {
        static let oldName = "bench", newCommand = "anabranch-lab bench merge"
        @Argument(parsing: .captureForPassthrough) var arguments: [String] = []
    }

    struct BenchServer: MovedCommand {
        static let oldName = "bench-server", newCommand = "anabranch-lab bench server"
        @Argument(parsing: .captureForPassthrough) var arguments: [String] = []
    }

    struct BenchApply: MovedCommand {
        static let oldName = "bench-apply", newCommand = "anabranch-lab bench apply"
        @Argument(parsing: .captureForPassthrough) var arguments: [String] = []
    }

    struct Cases: MovedCommand {
        static let oldName = "cases", newCommand = "anabranch-lab bench cases"
        @Argument(parsing: .captureForPassthrough) var arguments: [String] = []
    }

    struct DiffMerge: MovedCommand {
        static let oldName = "diff-merge", newCommand = "anabranch-lab fuzz merge"
        @Argument(parsing: .captureForPassthrough) var arguments: [String] = []
    }

    struct Trace: MovedCommand {
        static let oldName = "trace", newCommand = "anabranch-lab replay trace"
        @Argument(parsing: .captureForPassthrough) var arguments: [String] = []
    }

    struct Converge: MovedCommand {
        static let oldName = "converge", newCommand = "anabranch-lab fuzz convergence"
        @Argument(parsing: .captureForPassthrough) var arguments: [String] = []
    }
}
