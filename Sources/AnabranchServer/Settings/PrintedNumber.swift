import Foundation

extension FixedWidthInteger {
    /// Reads a number as it is printed. A text that only some programs read as a number (`+5`), or that some read as
    /// another number (`060`, in octal), is refused.
    package init?(asPrinted text: some StringProtocol) {
        guard let number = Self(text), number.description == text else { return nil }
        self = number
    }
}

extension Int {
    /// A number of bytes as people read it, such as 80.0 GiB.
    package var inBytes: String {
        guard self >= 1024 else { return "\(self) B" }
        var value = Double(self) / 1024, units = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"][...]
        while value >= 1024 {
            value /= 1024
            units.removeFirst()
        }
        return String(format: "%.1f ", value) + units[units.startIndex]
    }
}
