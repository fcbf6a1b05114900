import AnabranchTesting
import Foundation
import Testing

/// `Examples/Capture`: two shops with a database and a Django app each.
@Suite(.timeLimit(.minutes(30))) struct CaptureExampleTests {
    private static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    @Test func twoShopsSellTheSameMusic() async throws {
        let answer = try await onOwnThread {
            try BuiltCommands.bash(
                #"PYTHON="$1/.build/python/bin/python3" "$1/Examples/Capture/run.sh""#, Self.root.path())
        }
        #expect(answer.status == 0, "\(answer.complaint)")
        let report = """
            ann@example.com: 2 tracks for 2.98
            bob@example.com: 1 tracks for 1.99
            eve@example.com: 1 tracks for 0.99
            Favourites: 60 tracks
            For the road: 60 tracks
            New: 2 tracks
            New (2): 1 tracks
            1 artists renamed
            3|5.96
            1502 rows compared, 0 differences
            """
        #expect(
            answer.output == """
                9 tables captured, 1489 rows noted
                9 tables captured, 0 rows noted
                1489 collected, 0 applied, 0 waiting
                0 collected, 1489 applied, 0 waiting
                # Both sell, offline
                # oslo
                \(report)
                # porto
                \(report)
                # The databases are as they were before
                0
                0

                """)
    }
}
