import AnabranchTesting
import Foundation
import Testing

/// `anabranch capture` against a server, with writers in processes of their own.
@Suite(.timeLimit(.minutes(30))) final class CaptureCommandTests {
    private let folder = FileManager.default.temporaryDirectory.appending(path: "anabranch-\(UUID())").path()

    init() throws { try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true) }

    deinit { try? FileManager.default.removeItem(atPath: folder) }

    /// Runs what a shell is told to do, in a folder of its own and with a server in development mode.
    ///
    /// - `make NAME OPTIONS` makes a database and captures it, `sql NAME STATEMENTS` writes and reads it.
    /// - `capture COMMAND NAME` is a command of it; `run NAME` synchronizes it once.
    private func run(_ script: String) async throws -> BuiltCommands.Answer {
        try await onOwnThread { [folder] in
            try BuiltCommands.bash(
                """
                set -eu
                cd "$1"
                : >listening
                anabranch serve --dev --data server --listen 127.0.0.1:0 >listening 2>>server.log &
                server=$!
                trap 'kill -9 $(jobs -p) 2>/dev/null || true' EXIT
                until [ -s listening ]; do kill -0 $server || { cat server.log; exit 1; }; sleep 0.05; done
                url="ws://127.0.0.1:$(sed 's/.*://' listening)"
                replica() { echo --data "$1" --path '/"rows"'; }
                sql() { sqlite3 -bail -cmd '.timeout 30000' "$1.sqlite" "PRAGMA foreign_keys = ON; ${@:2}"; }
                capture() { anabranch capture "$1" --db "$2.sqlite" "${@:3}"; }
                run() { capture run "$1" $(replica "$1") --url "$url" "${@:2}"; }
                make() {
                    sql "$1" "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF;
                        CREATE TABLE folder (id INTEGER PRIMARY KEY, name TEXT UNIQUE);
                        CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT UNIQUE, n INTEGER,
                          folder INTEGER REFERENCES folder ON DELETE SET NULL)" >/dev/null
                    capture install "$1" "${@:2}"
                }
                rows='SELECT title, n, name FROM note LEFT JOIN folder ON folder.id = folder ORDER BY title'
                \(script)
                """, folder)
        }
    }

    @Test func aDatabaseIsCapturedComparedPausedAndReleased() async throws {
        let answer = try await run(
            """
            make a; make b
            sql a "INSERT INTO folder VALUES (7, 'work'); INSERT INTO note VALUES (1, 'one', 1, 7), (2, 'two', 2, NULL)"
            capture status a
            run a; run b
            sql b "$rows"
            capture status b --json
            capture compare b $(replica b)

            echo '# A write that no trigger sees'
            sql b "DROP TRIGGER sync_note_au; UPDATE note SET n = 5 WHERE title = 'one'"
            sql b "SELECT sql FROM sqlite_schema" >before
            capture compare b $(replica b) >differences || echo "status $?"
            sed 's/^note [12]:/note:/' differences
            run b; run a
            sql a "$rows"

            echo '# A pause'
            capture pause a
            run a || echo "status $?"
            sql a "ALTER TABLE note DROP COLUMN n"
            capture resume a
            run a
            capture uninstall a
            sql a "SELECT name FROM sqlite_schema ORDER BY name"
            capture status a || echo "status $?"
            capture uninstall b --tables note
            capture status b
            """)
        #expect(answer.status == 0)
        #expect(
            answer.output == """
                2 tables captured, 0 rows noted
                2 tables captured, 0 rows noted
                table folder: 1 row, 0 with an object
                table note: 2 rows, 0 with an object
                3 changes not collected, 0 not acknowledged
                0 objects waiting, 0 values given up
                3 collected, 0 applied, 0 waiting
                0 collected, 3 applied, 0 waiting
                one|1|work
                two|2|
                {"conflicts":0,"paused":false,"tables":[\
                {"fault":null,"name":"folder","objects":1,"rows":1,"triggers":true},\
                {"fault":null,"name":"note","objects":2,"rows":2,"triggers":true}],"unacknowledged":0,"uncollected":0,\
                "waiting":0,"waiting_objects":[]}
                3 rows compared, 0 differences
                # A write that no trigger sees
                status 1
                note: different n
                3 rows compared, 1 difference
                1 collected, 0 applied, 0 waiting
                0 collected, 1 applied, 0 waiting
                one|5|work
                two|2|
                # A pause
                status 1
                0 collected, 0 applied, 0 waiting
                folder
                note
                sqlite_autoindex_folder_1
                sqlite_autoindex_note_1
                status 1
                table folder: 1 row, 1 with an object
                0 changes not collected, 0 not acknowledged
                0 objects waiting, 0 values given up

                """)
        #expect(
            answer.complaint == """
                table note: its triggers were missing; all rows were compared
                Error: capture is paused: resume it first
                Error: a.sqlite: capture is not installed

                """)
    }

    @Test func rowsOfBothAreMatched() async throws {
        let answer = try await run(
            """
            make a
            sql a "INSERT INTO folder VALUES (7, 'work'); INSERT INTO note VALUES (1, 'one', 1, 7), (2, 'two', 2, NULL)"
            run a
            echo '{"note": {"match": ["title"]}}' >rules.json
            make b --rules rules.json
            sql b "INSERT INTO note VALUES (1, 'one', 5, NULL), (2, 'three', 3, NULL)"
            run b --dry-run | sed -E 's/[0-9a-f]{32}/KEY/'
            run b; run a
            for name in a b; do sql $name "$rows"; done
            sql b "SELECT kind, lost FROM sync_conflict"
            """)
        #expect(answer.status == 0, "\(answer.complaint)")
        let matched = """
            table note, by title: 1 row matched, 1 with differences; 1 row and 1 object alone; 0 ambiguous
            """
        #expect(
            answer.output == """
                2 tables captured, 0 rows noted
                3 collected, 0 applied, 0 waiting
                2 tables captured, 0 rows noted
                \(matched)
                  1 = KEY: different n, folder
                \(matched)
                1 collected, 3 applied, 0 waiting
                0 collected, 1 applied, 0 waiting
                one|1|work
                three|3|
                two|2|
                one|1|work
                three|3|
                two|2|
                matched|{"n":"5"}

                """)
    }

    /// One that is to go on waits for a database that is locked or paused when it begins; all others say why they end.
    @Test func aLockedDatabaseIsWaitedFor() async throws {
        let answer = try await run(
            """
            make a
            sql a "PRAGMA journal_mode = DELETE; INSERT INTO folder VALUES (7, 'work')"
            mkfifo gate
            { printf 'BEGIN EXCLUSIVE;\\n.shell touch locked\\n'; cat gate; } | sqlite3 a.sqlite &
            until [ -e locked ]; do sleep 0.05; done
            follow() {
                : >follow.out; : >follow.log
                anabranch capture run --db a.sqlite $(replica a) --url "$url" --every 0.01 >follow.out 2>follow.log &
                follow=$!
            }
            collects() {
                until grep '^1 collected' follow.out; do kill -0 $follow; sleep 0.05; done
                kill -TERM $follow
                wait $follow
                cat follow.log
            }
            follow
            commands="install status pause resume uninstall compare run"
            for command in $commands; do
                case $command in
                    compare) capture compare a $(replica a) ;;
                    run) run a ;;
                    *) capture $command a ;;
                esac 2>$command.log &
                eval "$command=$!"
            done
            for command in $commands; do
                wait ${!command} || echo "$command: $?"
                cat $command.log
            done
            until [ -s follow.log ]; do kill -0 $follow; sleep 0.05; done
            : >gate
            collects

            echo '# A pause'
            capture pause a
            follow
            until [ -s follow.log ]; do kill -0 $follow; sleep 0.05; done
            sql a "INSERT INTO folder VALUES (8, 'home')"
            capture resume a
            collects
            """)
        #expect(answer.status == 0, "\(answer.complaint)")
        let refused = ["install", "status", "pause", "resume", "uninstall", "compare", "run"].map { command in
            "\(command): 1\nError: a.sqlite: others keep the database locked\n"
        }
        #expect(
            answer.output == """
                2 tables captured, 0 rows noted
                delete
                \(refused.joined())\
                1 collected, 0 applied, 0 waiting
                a.sqlite: others keep the database locked; waiting
                # A pause
                1 collected, 0 applied, 0 waiting
                capture is paused: resume it first; waiting

                """)
    }

    /// Both processes are killed in the midst of what they do, again and again, while others write.
    @Test func nothingIsLostOrDoubledWhenItIsKilled() async throws {
        let answer = try await run(
            """
            make a >/dev/null; make b >/dev/null
            follow() {
                anabranch capture run --db "$1.sqlite" $(replica "$1") --url "$url" --every 0.01 >>"$1.log" 2>&1 &
                eval "running_$1=$!"
            }
            crash() { local process="running_$1"; kill -9 "${!process}"; wait "${!process}" 2>/dev/null || true; }
            follow a; follow b
            for i in $(seq 64); do
                for name in a b; do
                    sql $name "INSERT INTO note (title, n) VALUES ('$name$i', $i);
                        UPDATE note SET n = n + 1 WHERE id = (SELECT max(id) FROM note WHERE title LIKE '$name%');
                        INSERT OR REPLACE INTO folder (name) VALUES ('$name$((i % 7))');
                        UPDATE note SET folder = last_insert_rowid() WHERE id % 5 = 0;
                        DELETE FROM note WHERE title = '$name$((i - 40))'"
                done
                case $((i % 8)) in 3) crash a; follow a ;; 6) crash b; follow b ;; esac
            done
            crash a; crash b
            for name in a b a b; do run $name >/dev/null; done
            for name in a b; do
                sql $name "$rows" >$name.rows
                capture compare $name $(replica $name)
                run $name
            done
            cmp a.rows b.rows && wc -l <a.rows
            sql a "SELECT count(*), sum(n) - sum(substr(title, 2)) FROM note"
            """)
        #expect(answer.status == 0, "\(answer.complaint)")
        #expect(
            answer.output == """
                94 rows compared, 0 differences
                0 collected, 0 applied, 0 waiting
                94 rows compared, 0 differences
                0 collected, 0 applied, 0 waiting
                80
                80|80

                """)
    }

    @Test(arguments: [
        ("install --db none.sqlite", "none.sqlite: unable to open database file"),
        ("install --db a.sqlite --tables nothing", "table nothing: there is no such table"),
        ("install --db a.sqlite --rules bad.json", "the rules are no JSON object of tables"),
        ("run --db a.sqlite --data d --path '/\"x\"'", "Nothing is synced without a server: give --url."),
        ("run --db a.sqlite --data d --path '/\"x\"' --url ws://[::1]:1", "a.sqlite: capture is not installed"),
        (
            "run --db a.sqlite --data d --path '/\"x\"' --url ws://[::1]:1 --dry-run --every 2",
            "--dry-run looks once: leave --every and --on-change out."
        ),
        ("pause --db a.sqlite", "a.sqlite: capture is not installed"),
        ("status --db bad.json", "bad.json: file is not a database"),
    ])
    func aMistakeIsNamed(_ line: String, _ reason: String) throws {
        let answer = try BuiltCommands.bash(
            """
            cd "$1"; sqlite3 a.sqlite 'CREATE TABLE t (a)'; echo '["this is no JSON object, nor a database"' >bad.json
            anabranch capture \(line)
            """, folder)
        #expect(answer.status != 0 && answer.output.isEmpty)
        #expect(answer.complaint.hasPrefix("Error: \(reason)"), "\(answer.complaint)")
    }
}
