import AnabranchTesting
import Foundation

/// Tells on standard error how far a long run has come.
enum RunProgress {
    static func report(_ done: String, after elapsed: Duration) {
        FileHandle.standardError.write(Data(String(format: "%@, %.0f s\n", done, elapsed.inSeconds).utf8))
    }
}
