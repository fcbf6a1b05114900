import AnabranchTesting
import Foundation
import Testing

/// `anabranch serve --store postgres://…` (`Spec/Guide/MoreThanOneMachine.md`).
@Suite(.timeLimit(.minutes(30))) struct PostgresServeTests {
    private static let durable = Result { try TestPostgres(settings: []) }

    /// The beginning of a script of these tests: `serve NAME` starts a server, whose address is in `at`.
    private static let beginning = """
        set -eu
        cd "$1"
        url="$2" sharing=""
        trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
        serve() {
            : >"$1.out"
            anabranch serve --dev --data "$1" --store "$url" $sharing --listen 127.0.0.1:0 >"$1.out" 2>"$1.log" &
            server=$!
            until [ -s "$1.out" ]; do kill -0 $server || { cat "$1.log"; exit 1; }; sleep 0.05; done
            at="ws://127.0.0.1:$(sed 's/.*://' "$1.out")"
        }
        class='{"class":"Note","kind":"top-level","key":{"name":"_id","type":"int"},'
        class+='"properties":[{"name":"title","type":"string"}]}'
        note='["Note",{"int":"1"},{"title":"water the plants"}]'
        phone() { anabranch client "${@:2}" --data "phone-$1" --path '/"notes"'; }

        """

    /// - Parameter own: a PostgreSQL server that no other test uses.
    private static func run(_ script: String, on own: TestPostgres? = nil) async throws -> BuiltCommands.Answer {
        let server = try own ?? durable.get(), url = server.url(try server.makeDatabase())
        let folder = FileManager.default.temporaryDirectory.appending(path: "anabranch-\(UUID())").path()
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: folder) }
        return try await BuiltCommands.bashBeside(beginning + script, folder, url)
    }

    @Test func aSpareGoesOnWhereAServerHasEnded() async throws {
        let answer = try await Self.run(
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

    @Test func aServerTakesAFileBackForAClientThatComesFromAnother() async throws {
        let answer = try await Self.run(
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

    /// Two servers of one database, and devices that write the same partition at each of them, one of which changes
    /// servers. Neither server ends the session of a device because of the other, and when one of them is killed, its
    /// device goes on at the other.
    @Test func twoServersServeOnePartitionAtOnce() async throws {
        let answer = try await Self.run(
            """
            sharing=--shared
            serve one
            first="$at" one=$server
            serve two
            second="$at"
            printf '%s\\n' "$class" "$note" | phone ann write >/dev/null
            phone ann read --url "$first" >/dev/null
            phone bob read --url "$second" >/dev/null
            mark() { printf '["Note",{"int":"%s"},{"title":"%s %s"}]\\n' "$2" "$1" "$2" | phone "$1" write >/dev/null; }
            for round in 1 2 3 4 5; do
                mark ann 1$round
                mark bob 2$round
                phone ann read --url "$first" >/dev/null &
                phone bob read --url "$second" >/dev/null
                wait $!
            done
            { kill -9 $one && wait $one; } 2>/dev/null || true
            mark ann 30
            phone ann read --url "$second" >/dev/null
            phone bob read --url "$second" >/dev/null
            phone ann query Note TRUEPREDICATE >ann.txt
            phone bob query Note TRUEPREDICATE >bob.txt
            cmp ann.txt bob.txt
            grep -c '"title"' bob.txt
            grep -E 'Z (error|critical)|another writer' one.log two.log || true
            """)
        #expect(answer.status == 0 && answer.output == "12\n", "\(answer)")
    }

    /// A client of Simperium's API that changes servers with every request.
    @Test func twoServersServeSimperiumClients() async throws {
        let answer = try await Self.run(
            """
            cat >anabranch.yaml <<YAML
            store: $url
            shared: true
            rules: rules.yaml
            apps:
              notes: {providers: [local-userpass], simperium: {}}
            YAML
            cat >rules.yaml <<'YAML'
            rules:
              - {path: '"simperium/${user}"', right: write}
            YAML
            begin() {
                : >"$1.out"
                anabranch serve --config anabranch.yaml --data "$1" --listen 127.0.0.1:0 >"$1.out" 2>"$1.log" &
                until [ -s "$1.out" ]; do kill -0 $! || { cat "$1.log"; exit 1; }; sleep 0.05; done
                at="http://127.0.0.1:$(sed 's/.*://' "$1.out")/1/notes"
            }
            begin one
            first="$at"
            begin two
            second="$at"
            curl -sf --data '{"username":"ann@example.com","password":"a long secret"}' "$first/create/" >login.json
            token="$(grep -o '"access_token":"[0-9a-f]*"' login.json | cut -d '"' -f 4)"
            ask() { curl -s -o answer -w '%{http_code} ' -H "X-Simperium-Token: $token" "$@"; }
            ask --data '{"n":1}' "$first/note/i/k?ccid=a"
            ask --data '{"n":1}' "$second/note/i/k?ccid=a"
            ask --data '{"n":2}' "$second/note/i/k/v/1?ccid=b"
            ask --data '{"n":2}' "$first/note/i/k/v/1?ccid=b"
            ask "$first/note/i/k"
            cat answer
            """)
        #expect(answer.status == 0 && answer.output == #"200 409 200 409 200 {"n":2}"#, "\(answer)")
    }

    /// The load balancer of the guide, which knows two servers, one of which ends.
    @Test func aLoadBalancerFindsTheServersThatAreThere() async throws {
        let page = try #require(try Pages.all().first { $0.hasSuffix("MoreThanOneMachine.md") })
        let upstream = try #require(try Pages.blocks(in: "nginx", of: page).first)
        let answer = try await Self.run(
            """
            sharing=--shared
            serve one
            first="$at" one=$server
            serve two
            port="$(python3 -c 'import socket as s; print(s.create_server(("127.0.0.1", 0)).getsockname()[1])')"
            cat >upstream.conf <<'CONF'
            \(upstream)
            CONF
            sed -i "s/10.0.0.11:9090/${first#ws://}/; s/10.0.0.12:9090/${at#ws://}/" upstream.conf
            cat >nginx.conf <<CONF
            pid nginx.pid;
            error_log nginx.log;
            events {}
            http {
                client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi;
                scgi_temp_path scgi; access_log off;
                include upstream.conf;
                server {
                    listen 127.0.0.1:$port;
                    location / {
                        proxy_pass http://anabranch;
                        proxy_http_version 1.1;
                        proxy_set_header Host \\$host;
                        proxy_set_header Upgrade \\$http_upgrade;
                        proxy_set_header Connection upgrade;
                    }
                }
            }
            CONF
            nginx -p "$PWD" -c nginx.conf 2>/dev/null
            trap 'nginx -p "$PWD" -c nginx.conf -s stop 2>/dev/null; kill $(jobs -p) 2>/dev/null || true' EXIT
            printf '%s\\n' "$class" "$note" | phone ann write
            phone ann read --url "ws://127.0.0.1:$port" >/dev/null
            phone bob read --url "ws://127.0.0.1:$port" >/dev/null
            { kill -9 $one && wait $one; } 2>/dev/null || true
            echo '["Note",{"int":"2"},{"title":"and the cat"}]' | phone ann write
            phone ann read --url "ws://127.0.0.1:$port" >/dev/null
            phone bob read --url "ws://127.0.0.1:$port" >/dev/null
            phone bob query Note TRUEPREDICATE
            """)
        #expect(answer.status == 0 && answer.output.contains("and the cat"), "\(answer)")
    }

    /// `Examples/Cluster`
    @Test func aPhoneGoesOnWhileEachServerOfTheExampleIsReplaced() async throws {
        let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        let answer = try await Self.run(#"'\#(root.path())/Examples/Cluster/run.sh' "$url""#)
        #expect(answer.status == 0, "\(answer)")
        for note in ["with both", "without north", "without south", "after north was killed"] {
            #expect(answer.output.contains(#""title":"\#(note)""#), "\(answer)")
        }
    }

    @Test func aStoreIsForOneServerAtATimeOrForSeveral() async throws {
        let answer = try await Self.run(
            """
            refused() { anabranch serve --dev --listen 127.0.0.1:0 --data d "$@" 2>&1 >/dev/null | tail -n 1; }
            serve alone
            refused --store "$url" --shared
            refused --shared
            cat >anabranch.yaml <<YAML
            store: $url
            shared: true
            rules: everybody
            apps:
              notes: {providers: [anon-user], sync: flexible, app-config: everybody}
              papers: {providers: [anon-user], files: {}}
              letters: {providers: [local-userpass], simperium: {}}
            YAML
            anabranch config check --config anabranch.yaml 2>&1 || true
            """)
        let parts = [
            "the store was made for one server at a time", "shared: only with store, the PostgreSQL database",
            "apps: papers: files is for a server that has its store for itself",
        ]
        for part in parts { #expect(answer.output.contains(part), "\(answer)") }
        #expect(!answer.output.contains("apps: notes: flexible"), "\(answer)")
        #expect(!answer.output.contains("apps: letters: simperium"), "\(answer)")
    }

    /// The devices of a server with SQLite go on at one with PostgreSQL, and then at one with SQLite again.
    @Test func aStoreMovesToPostgresAndBack() async throws {
        let answer = try await Self.run(
            """
            stop() { { kill $server && wait $server; } 2>/dev/null || true; }
            alone() {
                : >"$1.out"
                anabranch serve --dev --data "$1" --listen 127.0.0.1:0 >"$1.out" 2>"$1.log" &
                server=$!
                until [ -s "$1.out" ]; do kill -0 $server || { cat "$1.log"; exit 1; }; sleep 0.05; done
                at="ws://127.0.0.1:$(sed 's/.*://' "$1.out")"
            }
            alone old
            printf '%s\n' "$class" "$note" | phone ann write >/dev/null
            phone ann read --url "$at" >/dev/null
            anabranch store copy --from old --to "$url" 2>&1 && exit 1
            stop
            echo '["Note",{"int":"2"},{"title":"and the cat"}]' | phone ann write >/dev/null
            anabranch store copy --from old --to "$url" | sed 's/ in [0-9]* s,.*//'
            anabranch serve --dev --data old --listen 127.0.0.1:0 2>&1 >/dev/null | tail -n 1
            serve new
            phone ann read --url "$at" >/dev/null
            phone bob read --url "$at" >/dev/null
            anabranch store copy --from "$url" --to back 2>&1 && exit 1
            stop
            anabranch store copy --from "$url" --to back >/dev/null
            copied="$(psql -qXAt "$url" -c "SELECT value FROM anabranch_store.meta WHERE name = 'copied-to'")"
            test "$copied" = "$PWD/back"
            anabranch verify --data back | tail -n 1
            alone back
            echo '["Note",{"int":"3"},{"title":"and the dog"}]' | phone bob write >/dev/null
            phone bob read --url "$at" >/dev/null
            phone ann read --url "$at" >/dev/null
            phone ann query Note TRUEPREDICATE
            """)
        #expect(answer.status == 0, "\(answer)")
        let parts = [
            "old: in use by another process", ": 1 file, 0 users, ", "this store was copied to postgres://",
            "the database is in use", "log entries: no damage", "and the cat", "and the dog",
        ]
        for part in parts { #expect(answer.output.contains(part), "\(part): \(answer)") }
    }

    /// A dump lacks what came after it, also where it is loaded into the database that it was made of.
    @Test func aDumpThatIsLoadedBeginsAnEpoch() async throws {
        let answer = try await Self.run(
            """
            epoch() { psql -qXAt "$url" -c "SELECT value FROM anabranch_store.meta WHERE name = 'epoch'"; }
            serve one
            printf '%s\\n' "$class" "$note" | phone ann write >/dev/null
            phone ann read --url "$at" >/dev/null
            { kill $server && wait $server; } 2>/dev/null || true
            epoch
            pg_dump "$url" >dump.sql
            psql -qXAt "$url" -c 'DROP SCHEMA anabranch_store CASCADE' 2>/dev/null
            psql -qXAt "$url" <dump.sql >/dev/null
            serve two
            epoch
            phone ann read --url "$at" >/dev/null
            phone bob read --url "$at" >/dev/null
            phone bob query Note TRUEPREDICATE
            """)
        #expect(answer.status == 0 && answer.output.hasPrefix("0\n1\n"), "\(answer)")
        #expect(answer.output.contains("water the plants"), "\(answer)")
    }

    /// It takes the socket of the PostgreSQL server away.
    @Test func aServerWhosePostgresGoesAwayUsesItAgainWhenItIsBack() async throws {
        let postgres = try TestPostgres(settings: [])
        defer { postgres.end() }
        let answer = try await Self.run(
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
            """, on: postgres)
        #expect(answer.status == 0 && answer.output.contains("water the plants"), "\(answer)")
    }

    @Test func commandsReadTheDatabaseBesideAServer() async throws {
        let answer = try await Self.run(
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

    @Test func whatCannotBeServedIsSaidAtOnce() async throws {
        let answer = try await Self.run(
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
