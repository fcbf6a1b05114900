import AnabranchClient
import AnabranchCore
import AnabranchQuery
import AnabranchReplica
import ArgumentParser
import Foundation

/// `anabranch client subscribe`.
struct ClientSubscribe: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "subscribe",
        abstract: "Say which objects a replica of flexible sync wants to have.",
        discussion: """
            A replica has the objects that match one of its subscriptions. One with a name takes the place of the one \
            that had the name; --remove takes out the one with that name, or with that class and predicate. With \
            --url the command ends when the objects are there, and it fails if the server refuses the predicate. \
            `anabranch client status` shows all of them.

            The server refuses a class that it does not know: `anabranch client write` with the line of the class \
            brings it there. Objects can only be written if a subscription asks for them: the server undoes other \
            writes.

            EXAMPLES
              anabranch client subscribe Note --data ./replicas --path my-app \\
                  --url ws://127.0.0.1:9090
              anabranch client subscribe Note 'owner == "ann"' --name mine \\
                  --data ./replicas --path my-app
              anabranch client subscribe --remove --name mine --data ./replicas \\
                  --path my-app
            """)

    @OptionGroup var options: ClientOptions

    @Argument(help: "The class.")
    var className: String?

    @Argument(help: "Which of its objects.")
    var predicate = "TRUEPREDICATE"

    @Option(help: "A name by which the subscription is found again.")
    var name: String?

    @Flag(help: "Take a subscription out.")
    var remove = false

    func validate() throws {
        guard className != nil || remove && name != nil else {
            throw ValidationError(remove ? "Which one? Give a class, or --name." : "Which class?")
        }
    }

    func run() async throws {
        guard try options.target().partition == nil else {
            throw InputError(description: "--path names a partition: subscriptions are of an app, as my-app")
        }
        try await options.withReplica { open in
            let sets = await open.replica.record.subscriptions
            // A set that the server has refused is nothing to build on.
            let last = sets?.entries.last { !$0.isRefused }
            try await check(open)
            try await open.replica.subscribe(try changed(last?.subscriptions ?? []))
            try await open.synchronize()
        }
    }

    private func changed(_ before: [Subscription]) throws -> [Subscription] {
        let own = className.map { Subscription($0, predicate, name: name) }
        let rest = before.filter { other in
            if let name { return other.name != name }
            return other.name != nil || other != own
        }
        guard remove else { return rest + [own].compactMap { $0 } }
        guard rest.count < before.count else { throw InputError(description: "there is no such subscription") }
        return rest
    }

    /// The replica may not know the class yet, so the server has the last word.
    private func check(_ open: ClientReplica) async throws {
        guard let className, !remove else { return }
        do {
            let state = try await open.replica.snapshot().state
            guard state.schema(ofClass: Array(className.utf8)) != nil else {
                _ = try ParsedQuery(predicate)
                return
            }
            _ = try Query(subscribingTo: className, where: predicate, of: state)
        } catch let error as QueryError {
            throw InputError(description: "\(error)")
        }
    }
}
