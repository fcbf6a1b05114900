import AnabranchCore
import AnabranchHistory
import AnabranchSQLite
import ArgumentParser
import Foundation

/// A version of a synced file, named by its number or by a moment at which it was the newest one.
enum LogMoment: Equatable {
    case version(ServerVersion)
    case time(ChangesetTime)

    static let help = """
        A version, as `anabranch log` prints it, or a time: 2026-11-24T14:00Z, 2026-11-24T14:00 of this computer, or \
        2h, two hours ago (s, m, h, d, w).
        """

    /// - Throws: `ValidationError` if it is neither.
    static func parse(_ text: String) throws -> LogMoment { try parse(text, now: Date()) }

    static func parse(_ text: String, now: Date) throws -> LogMoment {
        if let number = UInt64(text) { return .version(ServerVersion(rawValue: number)) }
        if let date = ago(text, now) ?? date(text) {
            return .time(ChangesetTime(secondsSince1970: date.timeIntervalSince1970))
        }
        throw ValidationError(
            "\(text) is neither a version nor a time: 41, 2026-11-24T14:00Z, 2026-11-24T14:00 or 2h, two hours ago.")
    }

    private static func ago(_ text: String, _ now: Date) -> Date? {
        let units: [Character: Double] = ["s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800]
        let digits = text.drop { $0 == "-" }.dropLast()
        guard let seconds = text.last.flatMap({ units[$0] }), let count = UInt32(digits) else { return nil }
        return now.addingTimeInterval(-seconds * Double(count))
    }

    /// A day, perhaps with a time of it, and with the difference of the time zone from UTC unless it is that of this
    /// computer.
    private static func date(_ text: String) -> Date? {
        let pattern = /(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(\.\d{1,9})?)?)?(Z|[+-]\d\d:?\d\d)?/
        guard let found = text.wholeMatch(of: pattern)?.output else { return nil }
        func number(_ digits: Substring?) -> Int { digits.flatMap { Int($0) } ?? 0 }
        var zone = TimeZone.current
        if let offset = found.8, offset != "Z" {
            let digits = offset.dropFirst(), minutes = number(digits.prefix(2)) * 60 + number(digits.suffix(2))
            let seconds = minutes * 60
            guard let other = TimeZone(secondsFromGMT: offset.hasPrefix("-") ? -seconds : seconds) else { return nil }
            zone = other
        } else if found.8 != nil {
            zone = .gmt
        }
        var calendar = Calendar(identifier: .gregorian)
        calendar.timeZone = zone
        let components = DateComponents(
            calendar: calendar, timeZone: zone, year: number(found.1), month: number(found.2), day: number(found.3),
            hour: number(found.4), minute: number(found.5), second: number(found.6))
        guard components.isValidDate, let date = components.date else { return nil }
        return date.addingTimeInterval(found.7.flatMap { Double("0\($0)") } ?? 0)
    }

    // MARK: In a file

    /// The version.
    /// - Parameter first: the version for a time before the file had one; nil to refuse such a time.
    /// - Throws: `InputError` if it is not known which version that was.
    func version(
        in file: StoredFile, beforeAll first: ServerVersion? = nil, now: Date = Date()
    ) throws -> ServerVersion {
        guard case .time(let time) = self else {
            guard case .version(let version) = self else { return file.head.version }
            return version
        }
        guard time <= ChangesetTime(secondsSince1970: now.timeIntervalSince1970) else {
            throw InputError(
                description: "\(time.date) has not come yet: the newest version is \(file.head.version)")
        }
        let (found, oldest) = try file.withView { view throws(HistoryError) in
            (try view.version(at: time), try view.oldestIntegration())
        }
        if let found { return found }
        if let first, oldest.map({ $0.version == 1 }) ?? (file.head.version == 0) { return first }
        guard let oldest else {
            throw InputError(
                description: """
                    \(file.path): no times are known at which the server integrated versions: give a version, as \
                    `anabranch log` prints it
                    """)
        }
        throw InputError(
            description: """
                \(file.path): times are known from \(oldest.time.date) on, that of version \(oldest.version): give a \
                later time, or a version
                """)
    }
}
