import CommandSupport
import Testing

/// Text from somebody else does nothing to a terminal but stand there.
@Suite struct TerminalTextTests {
    @Test(arguments: [
        ("\u{1B}]0;title\u{07}", "\\u001b]0;title\\u0007"), ("a\u{9B}31mred", "a\\u009b31mred"),
        ("\u{1B}[2J\r\u{08}", "\\u001b[2J\\u000d\\u0008"), ("\u{7F}\u{0}", "\\u007f\\u0000"),
        ("\u{202E}txt.exe\u{2066}", "\\u202etxt.exe\\u2066"), ("\u{200F}\u{200E}\u{061C}", "\\u200f\\u200e\\u061c"),
        ("a\tb\nc", "a\tb\nc"), ("Größe, 大きさ, 👩‍👩‍👧", "Größe, 大きさ, 👩‍👩‍👧"), ("", ""),
    ])
    func whatATerminalWouldObeyIsShown(text: String, shown: String) {
        #expect(TerminalText.escaped(text) == shown)
    }
}
