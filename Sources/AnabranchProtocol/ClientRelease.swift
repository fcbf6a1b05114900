public import AnabranchCore

/// A version of realm-core, such as 14.5.2.
public struct CoreVersion: Comparable, Hashable, Sendable, CustomStringConvertible {
    /// The first number.
    public let major: Int
    /// The second number.
    public let minor: Int
    /// The third number.
    public let patch: Int

    /// A version of these numbers, such as 14, 5 and 2.
    public init(_ major: Int, _ minor: Int, _ patch: Int = 0) {
        (self.major, self.minor, self.patch) = (major, minor, patch)
    }

    /// Reads `14.5.2`; what follows a hyphen or a plus sign, as in `14.5.2-abc`, does not count.
    public init?(_ text: some StringProtocol) {
        let parts = text.prefix { $0 != "-" && $0 != "+" }.split(separator: ".", omittingEmptySubsequences: false)
        let numbers = parts.compactMap { part in part.utf8.count < 6 ? UInt16(part).map { Int($0) } : nil }
        guard numbers.count == parts.count, numbers.count == 3 else { return nil }
        self.init(numbers[0], numbers[1], numbers[2])
    }

    /// True if the first version came out before the second, within one line of releases.
    public static func < (left: CoreVersion, right: CoreVersion) -> Bool {
        (left.major, left.minor, left.patch) < (right.major, right.minor, right.patch)
    }

    /// The first that comes after it, in its line of releases.
    fileprivate var next: CoreVersion { CoreVersion(major, minor, patch + 1) }

    /// The version as a number that grows with the versions: 14_005_002 is 14.5.2. 0 for one without such a number.
    public var number: UInt64 {
        minor < 1_000 && patch < 1_000 ? UInt64(clamping: major * 1_000_000 + minor * 1_000 + patch) : 0
    }

    /// The version as text, such as 14.5.2.
    public var description: String { "\(major).\(minor).\(patch)" }
}

/// The release of a client as far as it is known: the version of its realm-core, or the two versions between which it
/// lies (`Spec/Protocol.md`, sections 2.1 and 6.1).
public struct ClientRelease: Equatable, Sendable, CustomStringConvertible {
    /// The oldest release that it can be.
    public let oldest: CoreVersion
    /// The first release that it is too old to be; nil for the newest releases.
    public let end: CoreVersion?
    /// The version that it says it is; nil if it does not say.
    public let said: CoreVersion?
    private let isOwn: Bool

    /// The platform in the header `User-Agent` of this project's client library, which names the version that it
    /// resembles.
    package static let ownPlatform = "(Anabranch)"

    /// The first release that supports each version of the protocol, in ascending order.
    private static let firstReleases: [(version: Int, release: CoreVersion)] = [
        (2, CoreVersion(0, 0)), (4, CoreVersion(12, 0)), (6, CoreVersion(12, 1)), (7, CoreVersion(12, 6, 1)),
        (8, CoreVersion(13, 8)), (9, CoreVersion(13, 11)), (10, CoreVersion(13, 19)), (11, CoreVersion(13, 26)),
        (12, CoreVersion(14, 5)), (13, CoreVersion(14, 7)), (14, CoreVersion(14, 11)),
    ]

    /// - Parameters:
    ///   - offered: the highest version of the protocol that the client offers.
    ///   - userAgent: the value of the header; the sockets of some platforms send another one. The release in it counts
    ///     if it offers that version.
    public init(offering offered: ProtocolVersion, userAgent: String? = nil) {
        let oldest = Self.firstReleases.last { $0.version <= offered.number }?.release ?? CoreVersion(0, 0)
        let end = Self.firstReleases.first { $0.version > offered.number }?.release
        let words = userAgent?.split(separator: " ") ?? []
        isOwn = words.contains { $0 == Self.ownPlatform }
        let said = words.first { $0.hasPrefix("RealmSync/") }.flatMap { CoreVersion($0.dropFirst("RealmSync/".count)) }
        if let said, said >= oldest, end.map({ said < $0 }) ?? true {
            (self.oldest, self.end, self.said) = (said, said.next, said)
        } else {
            (self.oldest, self.end, self.said) = (oldest, end, nil)
        }
    }

    /// A release that is known exactly.
    init(_ release: CoreVersion) {
        (oldest, end, said, isOwn) = (release, release.next, release, false)
    }

    /// True if it can be one of the releases from `first` up to, but not including, `fixed`.
    func mayBe(from first: CoreVersion?, before fixed: CoreVersion?) -> Bool {
        (fixed.map { oldest < $0 } ?? true) && (first.map { first in end.map { first < $0 } ?? true } ?? true)
    }

    /// The defects that it may have.
    public var knownDefects: [ClientDefect] {
        ClientDefect.allCases.filter { mayBe(from: $0.first, before: $0.fixed) }
    }

    /// The capabilities that it surely has.
    public var capabilities: ClientCapabilities {
        let defects = Set(knownDefects)
        return ClientCapabilities(
            readsCollectionsInMixed: !defects.contains(.collectionsInMixed),
            readsAsymmetricClasses: !defects.contains(.asymmetricClasses),
            erasesAbsentEntries: !defects.contains(.absentEntries),
            overwritesDanglingLinks: !defects.contains(.danglingLinks))
    }

    /// The release as text, such as `realm-core 14.5.2`, `realm-core 12.6.1 or newer, before 13.8.0`,
    /// `Anabranch, like realm-core 14.14.0`.
    public var description: String {
        let core =
            if let said {
                "realm-core \(said)"
            } else if let end {
                "realm-core \(oldest) or newer, before \(end)"
            } else {
                "realm-core \(oldest) or newer"
            }
        return isOwn ? "Anabranch, like \(core)" : core
    }
}

/// A known defect of released clients, or something that they do not know yet (`Spec/Protocol.md`, section 6.1).
public enum ClientDefect: String, CaseIterable, Sendable {
    /// It ends its process at every start once it has to erase a dictionary entry that it does not have.
    case absentEntries = "absent-entries"
    /// It cannot read lists and dictionaries inside Mixed.
    case collectionsInMixed = "collections-in-mixed"
    /// It cannot read asymmetric classes.
    case asymmetricClasses = "asymmetric-classes"
    /// It takes a changeset that a merge has emptied for one that was not merged (RCORE-1977), and then refuses a
    /// download, and resets.
    case emptiedChangesets = "emptied-changesets"
    /// It takes an empty stored changeset for a missing one (#6191): its file is damaged, and refuses downloads or
    /// differs.
    case emptyChangesets = "empty-changesets"
    /// It can end its process when an object is created again to which a link dangles.
    case revivedLinks = "revived-links"
    /// It deletes its file upon error 206.
    case permissionDeletes = "permission-deletes"
    /// The legacy ERROR ends its process.
    case legacyErrors = "legacy-errors"
    /// It ends its process at every start once it has to write a link into a list of Mixed over one whose target it
    /// does not have, and keeps that link where it has to write null.
    case danglingLinks = "dangling-links"

    /// The first release that has it; nil: from the beginning.
    public var first: CoreVersion? {
        switch self {
        case .emptyChangesets: CoreVersion(11, 13)
        case .legacyErrors: CoreVersion(12, 6)
        case .absentEntries, .collectionsInMixed, .asymmetricClasses, .emptiedChangesets, .revivedLinks,
            .permissionDeletes, .danglingLinks:
            nil
        }
    }

    /// The first release without it; nil: none so far.
    public var fixed: CoreVersion? {
        switch self {
        case .absentEntries: CoreVersion(14, 5, 2)
        case .collectionsInMixed: CoreVersion(14, 7)
        case .asymmetricClasses: CoreVersion(12, 1)
        case .emptiedChangesets: CoreVersion(14, 12)
        case .emptyChangesets: CoreVersion(13, 8)
        case .revivedLinks: CoreVersion(13, 27)
        case .permissionDeletes: CoreVersion(12, 6)
        case .legacyErrors: CoreVersion(13, 18)
        case .danglingLinks: nil
        }
    }
}
