import AnabranchTesting
import Foundation

/// Reports the progress of a long run on standard error.
enum RunProgress {
    static func report(_ done: String, after elapsed: Duration) {
        FileHandle.standardError.write(Data(String(format: "%@, %.0f s\n", done, elapsed.inSeconds).utf8))
    }
}
