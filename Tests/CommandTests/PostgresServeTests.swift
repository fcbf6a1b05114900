import AnabranchTesting
import Foundation
import Testing

/// `anabranch serve --store postgres://…` (`Spec/Guide/MoreThanOneMachine.md`). One test after the other: one of them
/// takes the socket of the PostgreSQL server away.
@Suite(.serialized, .timeLimit(.minutes(30))) struct PostgresServeTests {
    private static let durable = Result { try TestPostgres(settings: []) }

    /// What a script of these tests begins with: `serve NAME` starts a server, whose address is in `at`.
    private static let beginning = """
        set -eu
        cd "$1"
        url="$2"
        trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
        serve() {
            : >"$1.out"
            anabranch serve --dev --data "$1" --store "$url" --listen 127.0.0.1:0 >"$1.out" 2>"$1.log" &
            server=$!
            until [ -s "$1.out" ]; do kill -0 $server || { cat "$1.log"; exit 1; }; sleep 0.05; done
            at="ws://127.0.0.1:$(sed 's/.*://' "$1.out")"
        }
        class='{"class":"Note","kind":"top-level","key":{"name":"_id","type":"int"},'
        class+='"properties":[{"name":"title","type":"string"}]}'
        note='["Note",{"int":"1"},{"title":"water the plants"}]'
        phone() { anabranch client "${@:2}" --data "phone-$1" --path '/"notes"'; }

        """

    private static func run(_ script: String) throws -> BuiltCommands.Answer {
        let server = try durable.get(), url = server.url(try server.makeDatabase())
        let folder = FileManager.default.temporaryDirectory.appending(path: "anabranch-\(UUID())").path()
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: folder) }
        return try BuiltCommands.bash(beginning + script, folder, url)
    }

    @Test func aSpareGoesOnWhereAServerHasEnded() throws {
        let answer = try Self.run(
            """
            serve one
            printf '%s\\n' "$class" "$note" | phone ann write
            phone ann read --url "$at" >/dev/null
            { kill -9 $server && wait $server; } 2>/dev/null || true
            serve spare
            phone bob read --url "$at" >/dev/null
            phone bob query Note TRUEPREDICATE
            echo '["Note",{"int":"2"},{"title":"and the cat"}]' | phone bob write
            phone bob read --url "$at" >/dev/null
            phone ann read --url "$at" >/dev/null
            phone ann query Note TRUEPREDICATE
            """)
        #expect(answer.status == 0, "\(answer)")
        #expect(answer.output.components(separatedBy: "water the plants").count == 3, "\(answer)")
        #expect(answer.output.contains("and the cat"), "\(answer)")
    }

    @Test func aServerTakesAFileBackForAClientThatComesFromAnother() throws {
        let answer = try Self.run(
            """
            serve one
            first="$at"
            printf '%s\\n' "$class" "$note" | phone ann write
            phone ann read --url "$first" >/dev/null
            serve other
            echo '["Note",{"int":"2"},{"title":"and the cat"}]' | phone ann write
            phone ann read --url "$at" >/dev/null
            echo '["Note",{"int":"3"},{"title":"not yet uploaded"}]' | phone ann write
            phone ann read --url "$first" >/dev/null
            phone bob read --url "$first" >/dev/null
            phone bob query Note TRUEPREDICATE
            """)
        #expect(answer.status == 0 && answer.output.contains("not yet uploaded"), "\(answer)")
    }

    @Test func aServerWhosePostgresGoesAwayUsesItAgainWhenItIsBack() throws {
        let answer = try Self.run(
            """
            serve one
            printf '%s\\n' "$class" "$note" | phone ann write
            phone ann read --url "$at" >/dev/null
            socket="${url##*host=}/.s.PGSQL.5432"
            mv "$socket" "$socket.away"
            ln -s "$socket.away" ./.s.PGSQL.5432
            psql -qXAt "${url%%\\?*}?host=$PWD" -c 'SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                WHERE datname = current_database() AND pid <> pg_backend_pid()'
            phone bob read --url "$at" >/dev/null &
            client=$!
            until grep -q PostgreSQL one.log; do kill -0 $server; sleep 0.05; done
            mv "$socket.away" "$socket"
            wait $client
            phone bob query Note TRUEPREDICATE
            """)
        #expect(answer.status == 0 && answer.output.contains("water the plants"), "\(answer)")
    }

    @Test func commandsReadTheDatabaseBesideAServer() throws {
        let answer = try Self.run(
            """
            serve one
            printf '%s\\n' "$class" "$note" | phone ann write
            phone ann read --url "$at" >/dev/null
            export ANABRANCH_STORE="$url"
            anabranch inspect
            anabranch log --path '/"notes"' --json
            anabranch blame Note/1 --path '/"notes"'
            anabranch export --path '/"notes"' | grep plants
            anabranch inspect --path '/"notes"' --class Note --query 'title BEGINSWITH "water"'
            anabranch inspect --path '/"none"' 2>&1 || true
            """)
        let parts = [
            #"/"notes": version "#, #""client":2"#, "created by version",
            #"["Note",{"int":"1"},{"title":"water the plants"}]"#, "the database: there is no partition",
        ]
        #expect(answer.status == 0, "\(answer)")
        for part in parts { #expect(answer.output.contains(part), "\(part): \(answer)") }
    }

    @Test func whatCannotBeServedIsSaidAtOnce() throws {
        let answer = try Self.run(
            """
            refuse() { anabranch serve --dev --data d --listen 127.0.0.1:0 --store "$1" 2>&1 >/dev/null | tail -n 1; }
            refuse 'mysql://a/b'
            refuse 'postgres://127.0.0.1:1/a'
            ANABRANCH_STORE="$url" anabranch inspect --config /dev/null 2>&1 || true
            echo "store: $url" >anabranch.yaml
            echo 'data: d' >>anabranch.yaml
            anabranch inspect --config anabranch.yaml 2>&1 || true
            anabranch backup --config anabranch.yaml --to b 2>&1 || true
            anabranch config print --config anabranch.yaml 2>&1 | grep -v "^#" | grep -c postgres || true
            """)
        let parts = [
            "a URL like postgres://anabranch@db.example.com/anabranch", "PostgreSQL cannot be reached",
            "the database has no store of Anabranch",
            "the store is in PostgreSQL, and this command works on data directories",
        ]
        for part in parts { #expect(answer.output.contains(part), "\(answer)") }
        #expect(answer.output.hasSuffix("\n0\n"), "a URL was printed: \(answer)")
    }
}
