extension FixedWidthInteger {
    /// Reads a number as it is printed. A text that only some programs read as a number (`+5`), or that some read as
    /// another number (`060`, in octal), is refused.
    package init?(asPrinted text: some StringProtocol) {
        guard let number = Self(text), number.description == text else { return nil }
        self = number
    }
}
