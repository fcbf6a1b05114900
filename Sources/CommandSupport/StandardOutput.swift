// The C standard library does not say that its streams may be used by several threads; they lock themselves.
@preconcurrency package import Foundation

/// The output of the process. A command whose output went nowhere must not look as if it had succeeded.
package enum StandardOutput {
    /// Makes sure that the buffer is written, however the process exits. If that fails, or has failed before, standard
    /// error says so and the exit status is 1. Call this once, at the beginning.
    package static func checkAtExit() {
        atexit {
            if fflush(stdout) != 0 { StandardOutput.end(because: errno) }
            guard ferror(stdout) != 0 else { return }
            // The failed bytes are gone, and so is the reason, unless the next byte fails as well.
            StandardOutput.end(because: fputs("\n", stdout) == EOF || fflush(stdout) != 0 ? errno : 0)
        }
    }

    /// Prints bytes, and ends the process if they cannot be written. On a terminal they are printed as text.
    package static func write(_ data: Data) {
        let isShown = isatty(STDOUT_FILENO) == 1
        let bytes = isShown ? Data(TerminalText.escaped(String(decoding: data, as: UTF8.self)).utf8) : data
        let count = bytes.withUnsafeBytes { fwrite($0.baseAddress, 1, $0.count, stdout) }
        if count < bytes.count { end(because: errno) }
    }

    /// - Parameter number: that of the system's error; 0 if it is no longer known.
    private static func end(because number: Int32) -> Never {
        // A reader who has read enough closes the pipe.
        guard number != EPIPE else { _exit(0) }
        let reason = number == 0 ? "" : ": \(String(cString: strerror(number)))"
        fputs("Error: the output cannot be written\(reason)\n", stderr)
        _exit(1)
    }
}
