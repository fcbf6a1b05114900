/// Messages about words that are not among the known ones.
package enum KnownWords {
    /// Names the word that was given, the one that was probably meant, and all known words.
    /// - Parameter elsewhere: what the word could mean if it is in the wrong place; it counts more than a misspelling.
    package static func unknown(
        _ kind: String, _ word: String, of known: [String], elsewhere: [String] = []
    ) -> String {
        let meant = elsewhere.isEmpty ? nearest(to: word, in: known).map { [$0] } ?? [] : elsewhere
        let hint = meant.isEmpty ? "" : "did you mean \(meant.map { "'\($0)'" }.joined(separator: " or "))? "
        return "there is no \(kind) '\(word)'; \(hint)allowed: \(known.joined(separator: ", "))"
    }

    /// The known word that differs least, if it differs by at most a third of its letters.
    package static func nearest(to word: String, in known: [String]) -> String? {
        let distances = known.map { (word: $0, distance: distance(Array(word), Array($0))) }
        guard let best = distances.min(by: { $0.distance < $1.distance }) else { return nil }
        return best.distance <= max(1, best.word.count / 3) ? best.word : nil
    }

    /// The number of letters to replace, add, leave out, or exchange with their neighbour.
    private static func distance(_ one: [Character], _ other: [Character]) -> Int {
        var rows = [Array(0...other.count)]
        for (row, letter) in one.enumerated() {
            var next = [row + 1]
            for (column, otherLetter) in other.enumerated() {
                var least = min(next[column], rows[row][column + 1]) + 1
                least = min(least, rows[row][column] + (letter == otherLetter ? 0 : 1))
                if row > 0, column > 0, letter == other[column - 1], one[row - 1] == otherLetter {
                    least = min(least, rows[row - 1][column - 1] + 1)
                }
                next.append(least)
            }
            rows.append(next)
        }
        return rows[one.count][other.count]
    }
}
