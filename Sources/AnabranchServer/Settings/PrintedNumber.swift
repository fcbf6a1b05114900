extension FixedWidthInteger {
    /// A number as it is printed. What only some read as one (`+5`), or as another one (`060`, for some octal), is no
    /// number.
    package init?(asPrinted text: some StringProtocol) {
        guard let number = Self(text), number.description == text else { return nil }
        self = number
    }
}
