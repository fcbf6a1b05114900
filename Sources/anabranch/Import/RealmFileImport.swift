import AnabranchCore
import AnabranchHistory
import AnabranchRealmFile
import ArgumentParser
import CommandSupport
import Foundation

/// The options for importing the objects of a Realm file.
struct RealmFileImportOptions: ParsableArguments {
    @OptionGroup var reading: RealmFileReading

    @Option(
        help: ArgumentHelp(
            "How many bytes the lines may have; 64 times the file and 16 MiB more by default.", valueName: "bytes"))
    var outputLimit: Int?

    @Option(
        help: ArgumentHelp(
            """
            The device that the file is from: nothing of a synced file replaces what the server has, but for what was \
            never uploaded.
            """,
            valueName: "name"))
    var fromDevice: String?

    @Flag(
        help: ArgumentHelp(
            "Take in what was never uploaded alone, each change at the time when it was made."))
    var onlyPending = false

    func validate() throws {
        if let outputLimit, outputLimit < 1 { throw ValidationError("--output-limit must be 1 or more.") }
    }

    private var isUsed: Bool {
        reading.keyFile != nil || reading.salvage || outputLimit != nil || fromDevice != nil || onlyPending
    }

    /// True if a file is read as a Realm file: it looks like one, is named like one, or a key is given.
    /// - Throws: `InputError` if it is not one, but an option for Realm files is given.
    func areAbout(_ file: String) throws -> Bool {
        let endings = [".realm", ".realm.lock", ".realm.note", ".realm.management"]
        if reading.keyFile != nil || endings.contains(where: file.hasSuffix) || Self.hasMark(file) { return true }
        guard !isUsed else {
            throw InputError(
                description: "\(file): is not a Realm file, which options of Realm files are about")
        }
        return false
    }

    /// True if the file has the mark of a Realm file. A pipe is left alone: what is read of it is gone.
    private static func hasMark(_ file: String) -> Bool {
        let values = try? URL(fileURLWithPath: file).resourceValues(forKeys: [.isRegularFileKey])
        guard values?.isRegularFile == true, let handle = FileHandle(forReadingAtPath: file) else { return false }
        defer { try? handle.close() }
        return (try? handle.read(upToCount: 20))?.dropFirst(16).elementsEqual("T-DB".utf8) == true
    }

    /// Reads the whole file first, so that nothing is imported of a file that cannot be read.
    func lines(of file: String, progress: ProgressLine) throws -> RealmFileLines {
        try reading.read(file) { realm in
            guard realm.history != .syncServer else {
                throw InputError(
                    description: """
                        \(file): it is a file of a Realm Object Server; give what `anabranch realm-file export \
                        --server-file` prints, with - as the file
                        """)
            }
            let merges = onlyPending || fromDevice != nil && realm.history == .syncClient
            var pending =
                merges
                ? try PendingChanges(of: realm, file, salvages: reading.salvage, outputLimit: outputLimit) : nil
            var touched = pending?.objects(of: realm.clientFileIdent) ?? []
            var lines = try LineFile(of: realm, reading.salvage, outputLimit, ident: 0, touched, progress) {
                try pending?.check($0, file)
            }
            var ident: UInt64?
            if realm.clientFileIdent == 0, lines.haveGlobalKeys {
                let digest = fromDevice.map { Checksum(low: 0, high: 0).keyed([], Array($0.utf8)) } ?? lines.digest
                let own = Self.localIdents.lowerBound + digest.low % UInt64(Self.localIdents.count)
                touched = pending?.objects(of: own) ?? []
                lines = try LineFile(of: realm, reading.salvage, outputLimit, ident: own, touched, progress) { _ in }
                ident = own
            }
            let classes = try realm.information(salvages: reading.salvage).classes
            let asymmetric = classes.filter { $0.kind == .topLevelAsymmetric && $0.objectCount > 0 }
            return RealmFileLines(
                name: fromDevice.map { "\(file) (\($0))" } ?? file, source: try lines.source(named: file),
                pending: pending, touchedLines: lines.touchedLines, touchedNumbers: lines.touchedNumbers,
                isOnlyPending: onlyPending, report: lines.report, ownIdent: fromDevice == nil ? ident : nil,
                asymmetricCounts: Dictionary(asymmetric.map { ($0.name, $0.objectCount) }) { $0 + $1 })
        }
    }

    /// The high parts of the keys of files that never connected: idents have 30 bits in the numbers of objects, and a
    /// server, which counts from 1, does not reach the upper half of them.
    private static let localIdents: Range<UInt64> = 1 << 29..<1 << 30
}

/// The objects of a Realm file on their way into an import.
struct RealmFileLines {
    /// The file's name in messages.
    let name: String
    let source: ImportSource
    /// The changes that were never uploaded, if they are made again on their own.
    let pending: PendingChanges?
    /// The classes, and the objects that the changes are about.
    let touchedLines: [[UInt8]]
    let touchedNumbers: Set<Int>
    /// True if only those changes are imported, and the lines are left out.
    let isOnlyPending: Bool
    let report: RealmFile.Report
    /// The high part of keys that was derived from the content of the file.
    let ownIdent: UInt64?
    /// The number of objects that are left out, by the names of their asymmetric classes.
    let asymmetricCounts: [String: Int]

    /// Reports what was left out, and where keys come from.
    func tell(of file: String) {
        RealmFileReading.tell(of: file, report.problems, count: report.problemCount, notSeen: report.notSeen)
        for (name, count) in asymmetricCounts.sorted(by: { $0.key < $1.key }) {
            StandardError.write("\(file): the class \(name) is asymmetric: left out: \(counted(count, "object"))\n")
        }
        if let ownIdent {
            StandardError.write(
                """
                \(file): it never connected: objects without a primary key have keys that begin with \
                \(String(ownIdent, radix: 16)). If a later copy of the file is to be imported, give both --from-device

                """)
        }
    }
}

/// The lines of an export in a file without a name: it is gone as soon as nobody reads it any more.
private struct LineFile {
    private static let pieceBytes = 1 << 18

    private let file: FileHandle
    let report: RealmFile.Report
    /// Equal lines have equal digests.
    private(set) var digest = Checksum(low: 0, high: 0)
    /// True if a class has no primary key.
    private(set) var haveGlobalKeys = false
    /// The classes, and the requested objects.
    private(set) var touchedLines: [[UInt8]] = []
    private(set) var touchedNumbers: Set<Int> = []

    init(
        of realm: RealmFile, _ salvages: Bool, _ outputLimit: Int?, ident: UInt64,
        _ touched: Set<ObjectAddress>, _ progress: ProgressLine, check: (_ touchedBytes: Int) throws -> Void
    ) throws {
        var touchedBytes = 0
        let file = try Self.nameless()
        var touchedLines: [[UInt8]] = [], touchedNumbers: Set<Int> = []
        var pending = Data(), count = 0, line = progress, digest = digest, haveGlobalKeys = false
        report = try realm.export(salvages: salvages, outputLimit: outputLimit, localIdent: ident) { text in
            digest = digest.keyed([], text)
            if text.first == UInt8(ascii: "{"), case .declaration(let declared) = try ExportLine(parsing: text) {
                haveGlobalKeys = haveGlobalKeys || declared.kind == .topLevel && declared.key == nil
                if !touched.isEmpty { touchedLines.append(text) }
            } else if !touched.isEmpty, case .object(let name, let key, _) = try ExportLine(parsing: text),
                let key = PrimaryKey(exported: key),
                touched.contains(ObjectAddress(name.utf8, key))
            {
                touchedBytes += text.count + 1
                try check(touchedBytes)
                touchedLines.append(text)
                touchedNumbers.insert(count + 1)
            }
            pending += text
            pending.append(UInt8(ascii: "\n"))
            count += 1
            guard pending.count >= Self.pieceBytes else { return }
            try file.write(contentsOf: pending)
            pending.removeAll(keepingCapacity: true)
            line.tell { "\(counted(count, "line")) read" }
        }
        line.end()
        try check(touchedBytes)
        try file.write(contentsOf: pending)
        (self.file, self.digest, self.haveGlobalKeys) = (file, digest, haveGlobalKeys)
        (self.touchedLines, self.touchedNumbers) = (touchedLines, touchedNumbers)
    }

    func source(named name: String) throws -> ImportSource {
        try file.seek(toOffset: 0)
        return try ImportSource(file, name: name, byteCount: report.byteCount)
    }

    private static func nameless() throws -> FileHandle {
        let folder = FileManager.default.temporaryDirectory.path
        var name = (folder + "/anabranch-import-XXXXXX").utf8CString.map { $0 }
        let descriptor = mkstemp(&name)
        guard descriptor >= 0, unlink(name) == 0 else {
            throw InputError(description: "\(folder): \(String(cString: strerror(errno)))")
        }
        return FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
    }
}
