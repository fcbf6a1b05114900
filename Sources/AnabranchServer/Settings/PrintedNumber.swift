extension FixedWidthInteger {
    /// Reads a number as it is printed. A text that only some programs take for a number (`+5`), or that some take for
    /// another number (`060`, in octal), is none.
    package init?(asPrinted text: some StringProtocol) {
        guard let number = Self(text), number.description == text else { return nil }
        self = number
    }
}
