import AnabranchClient
import AnabranchCore
import AnabranchQuery
import ArgumentParser
import CommandSupport
import Foundation

/// `anabranch client read`.
struct ClientRead: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "read",
        abstract: "Print what is in a replica.",
        discussion: """
            The canonical JSON of Spec/State.md, part E, on one line, as `anabranch inspect` prints it for a server: \
            equal states have equal texts. With --export the lines of `anabranch export`, which `anabranch client \
            write` and `anabranch import` take.

            EXAMPLES
              anabranch client read --data ./replicas --path '/"notes"'
              anabranch client read --data ./replicas --path '/"notes"' \\
                  --url ws://127.0.0.1:9090 > notes.json
              anabranch client read --export --data ./replicas --path my-app > my-app.jsonl
            """)

    @OptionGroup var options: ClientOptions

    @Flag(help: "Print classes and objects, a line each.")
    var export = false

    func run() async throws {
        let state = try await options.snapshot().state
        guard export else { return StandardOutput.write(line: try state.canonicalJSON()) }
        try state.forEachExportLine { StandardOutput.write(line: $0) }
    }
}

/// `anabranch client query`.
struct ClientQuery: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "query",
        abstract: "Print the objects of a class that match a predicate.",
        discussion: """
            A line for each object, [primary key, fields], in the language of the Realm SDKs (Spec/Query.md), SORT, \
            DISTINCT and LIMIT included. What $0, $1 … stand for comes after the predicate, as JSON: a number, true, \
            a string, {"oid": "…"} and the other values of Spec/Export.md, a list of them. What is no JSON is a string.

            EXAMPLES
              anabranch client query Note 'title BEGINSWITH[c] "to do"' --data ./replicas \\
                  --path '/"notes"'
              anabranch client query Note 'stars > $0 SORT(title ASC) LIMIT(10)' 3 \\
                  --data ./replicas --path '/"notes"'
              anabranch client query Note TRUEPREDICATE --data ./replicas --path my-app \\
                  --url ws://127.0.0.1:9090
            """)

    @OptionGroup var options: ClientOptions

    @Argument(help: "The class.")
    var className: String

    @Argument(help: "Which of its objects.")
    var predicate: String

    @Argument(help: "What $0, $1 … stand for.")
    var arguments: [String] = []

    func run() async throws {
        let arguments = try arguments.map(Self.argument)
        let state = try await options.snapshot().state
        guard state.schema(ofClass: Array(className.utf8)) != nil else {
            throw InputError.noClass(className, of: state)
        }
        do {
            for object in try Query(predicate, on: className, of: state, arguments).objects(in: state) {
                StandardOutput.write(line: try state.canonicalJSON(of: object))
            }
        } catch let error as QueryError {
            throw InputError(description: "\(error)")
        }
    }

    static func argument(_ text: String) throws -> QueryArgument {
        guard let json = try? JSONValue(parsing: text.utf8) else { return .value(.string(Array(text.utf8))) }
        func value(_ json: JSONValue) throws -> StateValue {
            guard let value = StateValue(argument: json) else {
                throw InputError(description: "\(json.excerpt) is not a value of Spec/Export.md, section 2")
            }
            return value
        }
        if let elements = json.array { return .list(try elements.map(value)) }
        return .value(try value(json))
    }
}

extension InputError {
    /// The error for a class that a state does not have.
    static func noClass(_ name: String, of state: ObjectGraph) -> InputError {
        noClass(
            name,
            of: state.classes.filter { $0.kind != .embedded }.map { String(decoding: $0.name, as: UTF8.self) })
    }

    /// - Parameter names: the classes that there are.
    static func noClass(_ name: String, of names: [String]) -> InputError {
        guard !names.isEmpty else {
            return InputError(description: "there is no class \(name): there are no classes yet")
        }
        return InputError(description: "there is no class \(name); allowed: \(names.sorted().joined(separator: ", "))")
    }
}

extension StandardOutput {
    /// Prints a line, and a newline after it.
    static func write(line: [UInt8]) { write(Data(line + [UInt8(ascii: "\n")])) }
}
