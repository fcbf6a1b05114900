import Foundation
import Testing

/// `anabranch client` against a server.
@Suite(.timeLimit(.minutes(30))) final class ClientCommandTests {
    private let folder = FileManager.default.temporaryDirectory.appending(path: "anabranch-\(UUID())").path()

    init() throws { try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true) }

    deinit { try? FileManager.default.removeItem(atPath: folder) }

    private static let declaration = """
        {"class":"Note","key":{"name":"_id","nullable":false,"type":"int"},"kind":"top-level",\
        "properties":[{"name":"title","nullable":true,"type":"string"}]}
        """

    /// Runs what a shell is told to do, in a folder of its own and with a server in development mode.
    ///
    /// - `client PATH DATA COMMAND …` is a command of a replica; `note KEY TITLE` and `erase KEY` are lines for it.
    /// - `start` starts the server again on its port, `crash` kills it.
    private func run(_ script: String) throws -> BuiltCommands.Answer {
        try BuiltCommands.bash(
            """
            set -eu
            cd "$1"
            port=0
            start() {
                : >listening
                anabranch serve --dev --data server --listen 127.0.0.1:$port >listening 2>>server.log &
                server=$!
                until [ -s listening ]; do kill -0 $server || { cat server.log; exit 1; }; sleep 0.05; done
                port="$(sed 's/.*://' listening)"
                url="ws://127.0.0.1:$port"
            }
            crash() { kill -9 $server; wait $server || true; }
            client() { anabranch client --path "$1" --data "$2" "${@:3}"; }
            note() { printf '["Note",{"int":"%s"},{"title":"%s"}]\\n' "$1" "$2"; }
            erase() { printf '["Note",{"int":"%s"},null]\\n' "$1"; }
            declare='\(Self.declaration)'
            start
            trap 'kill -9 $(jobs -p) 2>/dev/null || true' EXIT
            \(script)
            """, folder)
    }

    @Test func replicasConvergeWhateverIsKilled() throws {
        let answer = try run(
            """
            path='/"notes"'
            { echo "$declare"; note 1 milk; } | client "$path" A write --url $url
            client "$path" B read --url $url
            anabranch client --path "$path" --data A watch --url $url >watched &
            watch=$!
            until grep -q running watched; do sleep 0.05; done
            # Offline, with a server that is gone, and beside a replica that was killed.
            { note 1 'oat milk'; note 2 eggs; } | client "$path" B write --each 1
            kill -9 $watch; wait $watch || true
            crash
            note 3 salt | client "$path" A write
            note 4 tea | client "$path" A write --url $url --timeout 1 && exit 1
            client "$path" A status --verify --json | grep -o '"unsynced":{[^}]*}'
            start
            client "$path" B read --url $url >/dev/null
            client "$path" A read --url $url
            client "$path" B read --url $url | cmp - <(client "$path" A read) && echo equal
            client "$path" A query Note 'title CONTAINS $0 SORT(title DESC)' t
            """)
        let state =
            #"{"Note":[[{"int":"1"},{"title":"oat milk"}],[{"int":"2"},{"title":"eggs"}],"#
            + #"[{"int":"3"},{"title":"salt"}],[{"int":"4"},{"title":"tea"}]]}"#
        #expect(
            answer.output.split(separator: "\n") == [
                "1 object written, 0 unchanged, 0 erased", #"{"Note":[[{"int":"1"},{"title":"milk"}]]}"#,
                "2 objects written, 0 unchanged, 0 erased", "1 object written, 0 unchanged, 0 erased",
                "1 object written, 0 unchanged, 0 erased", #""unsynced":{"bytes":63,"transactions":2}"#,
                Substring(state), "equal", #"[{"int":"4"},{"title":"tea"}]"#, #"[{"int":"3"},{"title":"salt"}]"#,
                #"[{"int":"1"},{"title":"oat milk"}]"#,
            ], "\(answer)")
        #expect(answer.status == 0 && answer.complaint.contains("2 transactions of 63 bytes, not uploaded, kept in "))
    }

    /// Two copies of one replica, and one of a copy, in both kinds of sync: they begin with what it had, and go on.
    @Test func copiesGoOnFromWhereTheReplicaWas() throws {
        let answer = try run(
            """
            for path in '/"notes"' my-app; do
                case $path in my-app) login=--anonymous;; *) login=;; esac
                { echo "$declare"; note 1 milk; } | client $path A write --url $url $login >/dev/null || true
                if [ $path = my-app ]; then
                    client $path A subscribe Note --url $url
                    note 1 milk | client $path A write --url $url >/dev/null
                fi
                client $path A copy B
                client $path A copy C
                client $path A status --json | grep -o '"ident":[0-9]*' >ident
                client $path B status --json | grep -o '"ident":[a-z0-9]*'
                note 2 eggs | client $path A write --url $url
                note 3 salt | client $path B write
                client $path B read
                client $path B copy D 2>&1 | grep -o '1 of its transactions are not uploaded yet' || true
                client $path B read --url $url $login
                client $path C read --url $url $login | cmp - <(client $path B read) && echo equal
                client $path B copy D
                client $path D read --url $url $login --reset stop | cmp - <(client $path B read) && echo equal
                client $path A copy B 2>&1 | grep -o 'there is a file already'
                client $path A read --url $url | cmp - <(client $path B read) && echo equal
            done
            """)
        let first = #"{"Note":[[{"int":"1"},{"title":"milk"}],[{"int":"3"},{"title":"salt"}]]}"#
        let all =
            #"{"Note":[[{"int":"1"},{"title":"milk"}],[{"int":"2"},{"title":"eggs"}],[{"int":"3"},{"title":"salt"}]]}"#
        let written = "1 object written, 0 unchanged, 0 erased"
        let each = [
            #""ident":null"#, written, written, first, "1 of its transactions are not uploaded yet", all, "equal",
            "equal",
            "there is a file already", "equal",
        ]
        #expect(answer.output.split(separator: "\n").map(String.init) == each + each, "\(answer)")
        #expect(answer.status == 0 && !answer.complaint.contains("client reset"), "\(answer)")
    }

    @Test func aReplicaHasWhatItsSubscriptionsAskFor() throws {
        let answer = try run(
            """
            echo "$declare" | client my-app A write --url $url --anonymous
            client my-app A subscribe Note "title BEGINSWITH 'm'" --name some --url $url
            client my-app B subscribe Note --url $url
            for key in 1 2; do note $key milk; done | client my-app A write --url $url
            note 3 salt | client my-app B write --url $url
            client my-app A read --url $url
            note 4 tea | client my-app A write --url $url && exit 1
            client my-app A subscribe Note --name some --url $url
            client my-app A read | cmp - <(client my-app B read) && echo equal
            client my-app A subscribe Nothing --url $url && exit 1
            client my-app A subscribe --remove --name some --url $url
            client my-app A read --url $url
            client my-app A status --json | grep -o '"subscription_sets".*\\]'
            ls A
            """)
        #expect(answer.status == 0, "\(answer)")
        #expect(
            answer.output.split(separator: "\n").filter { !$0.contains(" written, ") } == [
                #"{"Note":[[{"int":"1"},{"title":"milk"}],[{"int":"2"},{"title":"milk"}]]}"#, "equal", #"{"Note":[]}"#,
                #""subscription_sets":[{"reason":null,"state":"complete","subscriptions":[],"version":4}]"#,
                "my-app.replica", "my-app.replica-shm", "my-app.replica-wal", "my-app.replica.lock", "my-app.users",
            ], "\(answer)")
        #expect(answer.complaint.contains("undone by the server: an object of Note: write to 4"), "\(answer)")
        #expect(answer.complaint.contains("no such class"), "\(answer)")
    }

    @Test func whoWatchesSeesEachChangeUntilSIGINT() throws {
        let answer = try run(
            """
            path='my-app/"notes"'
            { echo "$declare"; note 1 milk; } | client "$path" A write --url $url
            anabranch client --path "$path" --data B watch --url $url >watched &
            watch=$!
            until grep -q milk watched; do sleep 0.05; done
            note 2 eggs | client "$path" A write --url $url >/dev/null
            until grep -q eggs watched; do sleep 0.05; done
            erase 1 | client "$path" A write --url $url >/dev/null
            until grep -q 'null' watched; do sleep 0.05; done
            client "$path" B write </dev/null && exit 1
            kill -INT $watch; wait $watch
            grep changed watched
            grep -o '"status":"running"' watched
            """)
        #expect(answer.status == 0, "\(answer)")
        let lines = answer.output.split(separator: "\n").dropFirst()
        #expect(
            lines.map { $0.prefix { $0 != "v" } } == [
                #"{"changed":[["Note",{"int":"1"},{"title":"milk"}]],""#,
                #"{"changed":[["Note",{"int":"2"},{"title":"eggs"}]],""#,
                #"{"changed":[["Note",{"int":"1"},null]],""#, #""status":"running""#,
            ], "\(answer)")
        #expect(answer.complaint.contains("is in use: another process"), "\(answer)")
    }

    /// Both notes of each transaction have its number as their title.
    @Test func severalProcessesReadWhileOneWrites() throws {
        let answer = try run(
            """
            path='/"notes"'
            { echo "$declare"; note 1 0; note 2 0; } | client "$path" A write
            for number in $(seq 400); do note 1 $number; note 2 $number; done | client "$path" A write --each 2 &
            writer=$!
            readers=
            for name in one two three; do
                (set -e; until [ -e over ]; do client "$path" A read; done >$name) &
                readers="$readers $!"
            done
            wait $writer
            touch over
            for reader in $readers; do wait $reader; done
            client "$path" A read >four
            titles='s/.*"title":"([0-9]*)".*"title":"([0-9]*)".*/\\1 \\2/'
            cat one two three four | sed -E "$titles" | awk '$1 != $2 || NF != 2 { print "torn: " $0 }'
            sed -E "$titles" four
            """)
        #expect(answer.status == 0 && answer.output.hasSuffix("erased\n400 400\n"), "\(answer)")
    }

    /// The model of a server, in Python, with which real clients were tried.
    @Test func theServerMayBeSomebodyElses() throws {
        let model = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .appending(path: "AnabranchServerTests/Models/server_model.py").path()
        let answer = try run(
            """
            crash
            python3 -B '\(model)' 0 >model &
            until [ -s model ]; do kill -0 $!; sleep 0.05; done
            url="ws://127.0.0.1:$(sed 's/.* //' model)"
            path='/"notes"'
            names=(A B C)
            for name in ${names[*]}; do echo "$declare" | client "$path" $name write; done
            RANDOM=17
            for number in $(seq 60); do
                name=${names[RANDOM % 3]} key=$((RANDOM % 8)) online=
                if [ $((RANDOM % 3)) = 0 ]; then online="--url $url"; fi
                { note $key $number; if [ $((RANDOM % 4)) = 0 ]; then erase $key; fi; } |
                    client "$path" $name write $online
            done
            for name in A B C A B C; do client "$path" $name read --url $url >$name.json; done
            cmp A.json B.json && cmp B.json C.json && grep -c title A.json
            """)
        #expect(answer.status == 0 && answer.output.hasSuffix("\n1\n"), "\(answer)")
    }

    @Test func usersLogInOnceAndAreKept() throws {
        let answer = try run(
            """
            path='my-app/"notes"'
            anabranch admin users add --app my-app --email ann@example.com --data server --password-file - <<<secret1
            { echo "$declare"; note 1 milk; } >lines
            ANABRANCH_PASSWORD=secret1 client "$path" A write lines --url $url --email ann@example.com
            client "$path" A read --url $url
            ANABRANCH_PASSWORD=wrong client "$path" B read --url $url --email ann@example.com && exit 1
            client "$path" A read --email ann@example.com && exit 1
            stat -c '%a %n' A/my-app.users
            """)
        #expect(answer.status == 0 && answer.output.hasSuffix("600 A/my-app.users\n"), "\(answer)")
        #expect(answer.output.contains(#"{"Note":[[{"int":"1"},{"title":"milk"}]]}"#), "\(answer)")
        #expect(answer.complaint.contains("invalid username/password"), "\(answer)")
        #expect(answer.complaint.contains("A log-in needs a server: give --url."), "\(answer)")
    }

    @Test func mistakesAreNamedWithTheirLine() throws {
        let answer = try run(
            """
            path='/"notes"'
            mistake() { client "$path" A write "$@" && exit 1; true; }
            { echo "$declare"; note 1 milk; echo '["Note",{"int":"2"},{"name":"x"}]'; } | mistake
            note 1 milk | mistake
            echo '{"a":' | mistake
            echo '{"_id":1}' | mistake --class Note
            client "$path" A read
            { echo '{"_id":{"$numberInt":"1"},"title":"milk"}'; } >documents
            client "$path" A write documents --class Note --infer
            client "$path" A read --export
            """)
        #expect(answer.status == 0, "\(answer)")
        for reason in [
            "-, line 3: field name: the class Note has no such field", "-, line 1: there is no class Note",
            "-, line 1: not JSON at byte 5", "-: there is no class Note",
        ] {
            #expect(answer.complaint.contains("Error: \(reason)"), "\(answer)")
        }
        #expect(answer.output.hasPrefix("{}\n1 object written"), "\(answer)")
        #expect(answer.output.hasSuffix(#"["Note",{"int":"1"},{"title":"milk"}]"# + "\n"), "\(answer)")
    }
}
