import AnabranchTesting
import Foundation
import Testing

/// PostgreSQL takes the statements that pages show.
@Suite(.timeLimit(.minutes(30))) struct PageSQLTests {
    private static func run(_ statements: [String]) throws -> BuiltCommands.Answer {
        let server = try TestPostgres.shared.get(), url = server.url(try server.makeDatabase())
        let script = #"psql -qXAt -v ON_ERROR_STOP=1 "$1" <<<"$2""#
        return try BuiltCommands.bash(script, url, statements.map { "\($0);" }.joined(separator: "\n"))
    }

    /// The statements that take the place of a query of the cluster, on the table that the page shows.
    @Test func queriesOfTheClusterInSQL() throws {
        let page = "Spec/Guide/FromAtlas.md"
        let rows = try Pages.text(of: page).split(separator: "\n").compactMap { line in
            line.firstMatch(of: /\| `((?:SELECT|UPDATE|INSERT|DELETE) [^`]+)` \|$/).map { String($0.output.1) }
        }
        #expect(rows.count == 9)
        let tables = try Pages.blocks(in: "sql", of: page) + [#"CREATE TABLE "Person" (_id text PRIMARY KEY)"#]
        // What the rows have beside the example: a link, and an id in place of three dots.
        let link = #"ALTER TABLE "Task" ADD owner text REFERENCES "Person""#
        let answer = try Self.run(tables.map(Self.bare) + [link] + rows.map { $0.replacing("…", with: "'a'") })
        #expect(answer.status == 0 && answer.complaint.isEmpty, "\(answer)")
    }

    @Test func theDatabaseOfAServer() throws {
        let blocks = try Pages.blocks(in: "sql", of: "Spec/Guide/MoreThanOneMachine.md")
        // The first server makes the table.
        let table = [
            "CREATE SCHEMA anabranch_store",
            "CREATE TABLE anabranch_store.meta (name text PRIMARY KEY, value text NOT NULL)",
        ]
        let drop = ["DROP DATABASE anabranch", "DROP ROLE anabranch"]
        let answer = try Self.run(table + blocks.map(Self.bare) + drop)
        #expect(answer.status == 0 && answer.complaint.isEmpty, "\(answer)")
    }

    /// Without the semicolon at the end.
    private static func bare(_ block: String) -> String {
        String(block.reversed().drop { $0 == ";" || $0.isNewline }.reversed())
    }
}
